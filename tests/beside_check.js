/* Facts about two hierarchies in one page, checked inside it as view_check.js does for one. */
"use strict";
(async function () {
const verdict = document.createElement("pre");
verdict.id = "verdict";
const same = (name, got, want) => { verdict.textContent += (JSON.stringify(got) === JSON.stringify(want) ? "true  " + name : "FALSE " + name + ": " + JSON.stringify({ got, want })) + "\n"; };
const until = async (holds) => { for (let i = 0; i < 100 && !holds(); i++) await new Promise((done) => setTimeout(done, 20)); };
const pages = [...document.querySelectorAll("iframe")].map((frame) => () => frame.contentWindow.hga);

await until(() => pages.every((page) => page() && page().ready));
same("both_are_ready", pages.map((page) => page().ready), [true, true]);
pages[0]().select(7);
same("a_token_chosen_in_one_is_chosen_in_the_other", pages.map((page) => page().state().selected), [7, 7]);
pages[1]().select(9);
same("and_the_other_way_round", pages.map((page) => page().state().selected), [9, 9]);
const told = () => ["left", "right"].map((name) => new URLSearchParams(new URLSearchParams(location.hash.slice(1)).get(name)).get("token"));
await until(() => told().join() === "9,9");
same("the_address_has_both", told(), ["9", "9"]);
verdict.textContent += "end\n";
document.body.append(verdict);
}());

"use strict";
// The address of this page holds those of both pages in it: #left=..&right=..
window.hgaAddressOf = (name) => new URLSearchParams(location.hash.slice(1)).get(name) || "";
window.hgaAddress = (name, now) => {
  const both = new URLSearchParams(location.hash.slice(1));
  both.set(name, now);
  history.replaceState(null, "", "#" + both);
};
// A token chosen in one is chosen in the other, where it has so many.
window.hgaChosen = (name, token) => {
  for (const frame of document.querySelectorAll("iframe")) {
    const other = frame.contentWindow.hga;
    if (frame.name !== name && other && other.ready && other.data.queries[1] > token - other.data.queries[0]) other.follow(token);
  }
};

"use strict";
// The address of this page holds those of both pages in it: #left=..&right=..
window.hgaAddressOf = (name) => new URLSearchParams(location.hash.slice(1)).get(name) || "";
window.hgaAddress = (name, now) => {
  const both = new URLSearchParams(location.hash.slice(1));
  both.set(name, now);
  history.replaceState(null, "", "#" + both);
};

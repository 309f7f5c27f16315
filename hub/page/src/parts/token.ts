//! The field for the token of a user, which stays in the storage of the tab.

import { h } from "./dom";

const NAME = "ibnet-token";

export function tokenField(): { element: HTMLInputElement; take: () => string } {
  const element = h("input", {
    class: "field",
    type: "password",
    placeholder: "Your token",
    "aria-label": "Your token",
    autocomplete: "off",
  });
  element.value = sessionStorage.getItem(NAME) ?? "";
  const take = () => {
    sessionStorage.setItem(NAME, element.value);
    return element.value;
  };
  return { element, take };
}

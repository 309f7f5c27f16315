//! The light and the dark theme. Canvas pictures read the same colours as the style sheet.

export type ThemeChoice = "auto" | "light" | "dark";

const KEY = "ibnet-theme";

/** Colours of canvas pictures, as CSS text. */
export interface Theme {
  name: "light" | "dark";
  ink: string;
  muted: string;
  faint: string;
  line: string;
  surface: string;
  raised: string;
  accent: string;
  alert: string;
}

let current: Theme | null = null;

/** Returns the choice of the user. */
export function themeChoice(): ThemeChoice {
  const stored = localStorage.getItem(KEY);
  return stored === "light" || stored === "dark" ? stored : "auto";
}

export function setThemeChoice(choice: ThemeChoice): void {
  if (choice === "auto") localStorage.removeItem(KEY);
  else localStorage.setItem(KEY, choice);
  applyTheme();
}

/** Applies the choice, or the preference of the system. */
export function applyTheme(): void {
  const choice = themeChoice();
  const dark = choice === "auto" ? darkPreference().matches : choice === "dark";
  document.documentElement.dataset.theme = dark ? "dark" : "light";
  current = null;
}

export function darkPreference(): MediaQueryList {
  return matchMedia("(prefers-color-scheme: dark)");
}

/** Returns the colours of the current theme. */
export function theme(): Theme {
  if (current === null) {
    const style = getComputedStyle(document.documentElement);
    const color = (name: string) => style.getPropertyValue(`--${name}`).trim();
    current = {
      name: document.documentElement.dataset.theme === "light" ? "light" : "dark",
      ink: color("ink"),
      muted: color("muted"),
      faint: color("faint"),
      line: color("line"),
      surface: color("surface"),
      raised: color("raised"),
      accent: color("accent"),
      alert: color("alert"),
    };
  }
  return current;
}

/** Whether the window is that of a phone, for which the style sheet has its own layout. */
export function phone(): MediaQueryList {
  return matchMedia("(max-width: 600px)");
}

/** Size of the root font to which lengths in pixels refer. */
const BASE_FONT = 14;

/** Returns the zoom factor of a wall screen, where the style sheet sets a larger root font. */
export function zoom(): number {
  return Number.parseFloat(getComputedStyle(document.documentElement).fontSize) / BASE_FONT || 1;
}

let family = "";

/** Returns the font of canvas text. */
export function font(size: number, weight = 400): string {
  if (family === "") family = getComputedStyle(document.body).fontFamily;
  return `${weight} ${size}px ${family}`;
}

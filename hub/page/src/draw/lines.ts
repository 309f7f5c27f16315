//! Colours of curves by Okabe and Ito (2008), for colour-blind readers. The dark theme has lighter
//! variants of the dark ones.

export const LINES: readonly { light: string; dark: string }[] = [
  { light: "#0072b2", dark: "#56b4e9" },
  { light: "#d55e00", dark: "#f0935a" },
  { light: "#009e73", dark: "#2fc79a" },
  { light: "#b3578e", dark: "#dd9cc3" },
  { light: "#b07a00", dark: "#e9b13c" },
  { light: "#3b6fd0", dark: "#9db8ff" },
];

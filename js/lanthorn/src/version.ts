/** The version of this package and of the engine's crates. Not read from package.json, which a bundle does not have. */
export const VERSION = "0.1.0";

//! What a Lanthorn program means: dtypes, layouts, primitives with all their rules, the graph and its transforms.

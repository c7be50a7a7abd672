//! How a Lanthorn program will be run: passes from graph to fused regions, memory plan and program.

/**
 * Tokenizers for Effect: text to ids and back, training, and chat templates.
 *
 * The work is done by the engine's addon on threads of its own, so the event loop goes on, and several calls run at a
 * time. Ids are in memory of the caller's, as `Uint32Array`; nothing here needs a runtime of tensors.
 *
 * A program that is interrupted stops its work: the interruption is over when nothing of it runs any more.
 */

export * from "./config.js";
export * from "./errors.js";
export * from "./tokenizer.js";
export * from "./training.js";

/** Whether a value has fields, as settings and states do; what callers without types give may have none. */
export const isRecord = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === "object" && value !== null;

/** Whether a value is a whole number from 0 to 2^53 - 1. */
export const isCount = (value: unknown): value is number => Number.isSafeInteger(value) && (value as number) >= 0;

/** Whether a value has fields, as settings and states do; what callers without types give may have none. */
export const isRecord = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === "object" && value !== null;

/** Whether a value has fields, as settings and states do: nothing that is read from outside has for sure the form of its type. */
export const isRecord = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === "object" && value !== null;

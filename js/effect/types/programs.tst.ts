// The programs of test/programs.ts compile under the package's strict settings.
import { expect, test } from "tstyche";

import type { Model, Optimizer, Tensor, Trainer } from "@lanthorn/effect";
import * as programs from "../test/programs.js";

test("they are functions of what they say", () => {
  expect(programs.runModel).type.toBeCallableWith({} as Tensor.Any);
  expect(programs.update).type.toBeCallableWith([], [], {} as Tensor.Any);
  expect(programs.train).type.toBeCallableWith({} as Model.Model, {} as Tensor.Any, {} as Tensor.Any);
  expect(programs.saveAndResume<Optimizer.AdamState>).type.toBeCallableWith(
    {} as Trainer.Trainer<Optimizer.AdamState>,
    {} as Trainer.Trained<Optimizer.AdamState>,
  );
  expect(programs.generate).type.toBeCallableWith({} as Model.Model, [], {} as Tensor.Any, [1]);
  expect(programs.roundTrip).type.toBeCallableWith({} as Model.Model, []);
});

// A stream of an exported run in JavaScript: the same file in node and in a browser.
//   nacre export RUN --stream && npm install onnxruntime-web && node examples/stream.mjs model-step.onnx steps.json
// steps.json holds rows [[time, x1, x2, ...], ...]; the answer after each of them is printed as a line of JSON.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";

// From the folder it is started in, where npm installed it. In a page: import * as ort from "onnxruntime-web".
const ort = createRequire(`${process.cwd()}/`)("onnxruntime-web");

const [model, steps] = process.argv.slice(2);
const session = await ort.InferenceSession.create(readFileSync(model));
const state = {};
for (const port of session.inputMetadata) {
  if (port.name === "x" || port.name === "time") continue;
  const shape = port.shape.map((size) => (typeof size === "number" ? size : 1)); // one stream
  const count = shape.reduce((a, b) => a * b, 1);
  const zeros = { int64: BigInt64Array, float64: Float64Array, float32: Float32Array }[port.type];
  state[port.name] = new ort.Tensor(port.type, new zeros(count), shape);
}
for (const [time, ...x] of JSON.parse(readFileSync(steps))) {
  const found = await session.run({
    x: new ort.Tensor("float32", Float32Array.from(x), [1, x.length]),
    time: new ort.Tensor("float64", Float64Array.of(time), [1]),
    ...state,
  });
  for (const name of Object.keys(state)) state[name] = found[`next_${name}`];
  console.log(JSON.stringify([...(found.probability ?? found.y).data]));
}

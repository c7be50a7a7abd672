// Losses as a picture, drawn by ECharts without a page.
import { init } from "echarts";

/** An SVG of the losses of a training, and of evaluations `{ step, loss }` on held-out data, on a logarithmic axis. */
export function lossPlot(title, losses, evaluations = []) {
  const chart = init(null, null, { renderer: "svg", ssr: true, width: 800, height: 450 });
  // A running mean shows the trend through the noise of single batches.
  let mean = losses[0];
  const smooth = losses.map((loss, step) => [step + 1, (mean += 0.1 * (loss - mean))]);
  const held = evaluations.map(({ step, loss }) => [step, loss]);
  const line = (name, data, lineStyle = {}) => ({ name, type: "line", showSymbol: false, lineStyle, data });
  chart.setOption({
    animation: false,
    backgroundColor: "white",
    title: { text: title },
    legend: { top: 4, right: 10 },
    grid: { left: 60, right: 60, bottom: 40 },
    xAxis: { type: "value", name: "step", min: 1, max: losses.length },
    yAxis: { type: "log", logBase: 2, name: "loss" },
    series: [
      line("batch", losses.map((loss, step) => [step + 1, loss]), { width: 1, opacity: 0.4 }),
      line("running mean", smooth),
      ...(held.length > 0 ? [line("held out", held)] : []),
    ],
  });
  const svg = chart.renderToSVGString();
  chart.dispose();
  return svg;
}

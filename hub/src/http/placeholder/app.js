const live = new WebSocket(new URL("api/v1/live", location.href.replace(/^http/, "ws")));
live.binaryType = "arraybuffer";
live.onopen = () => live.send(JSON.stringify({ metrics: ["xmit_utilization"] }));
live.onmessage = ({ data }) => {
  if (typeof data === "string") return;
  const view = new DataView(data);
  document.getElementById("slot").value = view.getBigUint64(8, true);
  document.getElementById("ports").value = view.getUint32(24, true);
};

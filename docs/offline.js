// What Material for MkDocs needs where its pages are opened as files: workers, which browsers refuse there,
// become frames; and the colours follow the browser's scheme.
class FrameWorker extends EventTarget {
  constructor(address) {
    super();
    const frame = document.createElement("iframe");
    frame.hidden = true;
    document.body.append(frame);
    this.inside = frame.contentWindow;
    this.inside.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
    const script = frame.contentDocument.createElement("script");
    script.src = address;
    this.ready = new Promise((resolve) => script.addEventListener("load", resolve));
    frame.contentDocument.head.append(script);
  }
  postMessage(data) {
    this.ready.then(() => this.inside.dispatchEvent(new MessageEvent("message", { data })));
  }
}
if (location.protocol === "file:") window.Worker = FrameWorker;

const dark = matchMedia("(prefers-color-scheme: dark)");
const follow = () => (document.body.dataset.mdColorScheme = dark.matches ? "slate" : "default");
dark.addEventListener("change", follow);
document.addEventListener("DOMContentLoaded", follow);

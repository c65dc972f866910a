// node trace_processor.js FOLDER: Perfetto's own trace processor, as the page ui.perfetto.dev runs it in
// a worker, with the stream of its requests on standard input and that of its answers on standard output.
const fs = require('fs');
const path = require('path');
const vm = require('vm');

const folder = process.argv[2];
const own = process;
const read = (name) => fs.readFileSync(path.join(folder, path.basename(String(name))));

// What a worker of a browser has.
globalThis.self = globalThis;
globalThis.location = {href: `file://${folder}/engine_bundle.js`};
globalThis.WorkerGlobalScope = function () {};
globalThis.importScripts = () => {};
globalThis.XMLHttpRequest = class {
  open(_method, name) {
    this.name = name;
  }
  send() {
    const bytes = read(this.name);
    this.response = bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.length);
    this.status = 200;
  }
};
console.log = console.info = console.warn = () => {};

// Node says that it has memories of 64 bits, and then has another encoding of them.
const Module = WebAssembly.Module;
WebAssembly.Module = function (bytes) {
  if (bytes[8] === 5 && bytes[11] === 4) throw new Error('32 bits, please');
  return new Module(bytes);
};
WebAssembly.Module.prototype = Module.prototype;

const port = {onmessage: null, postMessage: (answer) => fs.writeSync(1, answer)};
globalThis.process = undefined; // else it takes itself to be in Node
vm.runInThisContext(String(read('engine_bundle.js')));
globalThis.onmessage({data: port});
globalThis.process = own;

const begin = () => {
  if (port.onmessage === null) return setTimeout(begin, 10);
  own.stdin.on('data', (request) => port.onmessage({data: new Uint8Array(request)}));
};
begin();

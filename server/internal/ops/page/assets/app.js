// The page: asks the server once a second what is live, and hands the answer to the parts.

import * as address from './address.js';
import * as format from './format.js';
import * as cluster from './nodes.js';
import * as publish from './publish.js';
import * as stage from './stage.js';
import * as table from './streams.js';
import { say, write } from './copyable.js';

const interval = 1000; // ms between two questions
const longestWait = 15000; // ms between two when the server does not answer
const patience = 5000; // ms for an answer

const element = (id) => document.getElementById(id);

let streams = []; // as last heard, sorted by name
let server = {}; // what it last said of itself
let selected = ''; // name of the stream on the stage
let picked = false; // the visitor chose it, so that the page does not choose another
let heard; // Date of the last answer
let known; // names in the last answer, to announce what comes and goes
let sent = []; // [time in ms, bytes] of the last answers, for the rate

// ---- asking

let timer = 0;
let asking = false;
let failures = 0;

async function ask() {
  clearTimeout(timer);
  if (asking || document.hidden) return;
  asking = true;
  let wait = interval;
  try {
    const answer = await fetch('api/streams', { cache: 'no-store', signal: AbortSignal.timeout(patience) });
    if (!answer.ok) throw new Error(`The server answers ${answer.status} ${answer.statusText}`.trimEnd());
    show(await answer.json());
    failures = 0;
    complain('');
  } catch (err) {
    failures++;
    wait = Math.min(interval * 2 ** failures, longestWait);
    complain(err.message.startsWith('The server') ? err.message : 'The server does not answer');
  }
  asking = false;
  if (!document.hidden) timer = setTimeout(ask, wait);
}

document.addEventListener('visibilitychange', () => {
  clearTimeout(timer);
  sent = []; // a rate over the time that the page was hidden would not be that of now
  ask();
});

// complain shows a banner with what is wrong, or takes it away.
function complain(what) {
  const banner = element('banner');
  document.body.classList.toggle('stale', what !== '');
  if (!what) {
    banner.hidden = true;
    return;
  }
  const since = heard ? ` The page shows the state of ${heard.toLocaleTimeString()}.` : '';
  write(banner.querySelector('p'), `${what}.${since} Retrying every few seconds.`);
  banner.hidden = false;
  element('loading').hidden = true;
}

element('banner').querySelector('button').addEventListener('click', ask);

// ---- showing

function show(answer) {
  heard = new Date();
  const all = cluster.merge(answer);
  ({ server, streams } = all);
  const names = streams.map((stream) => stream.name);
  announce(names);
  showTotals();
  write(element('nodes'), cluster.count(all.nodes));
  choose();
  table.update(streams, selected, server.posters, pick);
  publish.update(names, server);
  showStage();
  element('loading').hidden = true;
  element('publish').hidden = false;
  element('streams').hidden = streams.length === 0;
  element('empty').hidden = streams.length > 0 || selected !== '';
}

function announce(names) {
  if (known) {
    const come = names.filter((name) => !known.includes(name));
    const gone = known.filter((name) => !names.includes(name));
    if (come.length) say(`${come.join(', ')} is live`);
    else if (gone.length) say(`${gone.join(', ')} has ended`);
  }
  known = names;
}

function showTotals() {
  const total = (name, text) => write(document.querySelector(`[data-total=${name}]`), text);
  sent.push([performance.now(), Number(server.bytes_out) || 0]);
  if (sent.length > 6) sent.shift();
  const [[from, before], [to, after]] = [sent[0], sent[sent.length - 1]];
  total('streams', format.count(server.streams));
  total('viewers', format.count(server.viewers));
  total('sending', to > from && after >= before ? format.rate(((after - before) * 8000) / (to - from)) : '–');
  total('sent', format.bytes(server.bytes_out));
  total('memory', format.bytes(server.memory_bytes) + (server.memory_budget ? ` of ${format.bytes(server.memory_budget)}` : ''));
  const owners = Object.entries(server.memory_by_owner ?? {}).sort((a, b) => b[1] - a[1]);
  document.querySelector('[data-total=memory]').title = owners.map(([owner, n]) => `${owner}: ${format.bytes(n)}`).join(', ');
  total('uptime', format.duration(server.uptime_seconds));
  document.querySelectorAll('.operator').forEach((figure) => (figure.hidden = !server.operator));
  element('files').hidden = server.files !== 'listed';
  element('files-named').hidden = server.files !== 'named';
  element('blobs').hidden = !server.blobs;
  write(element('version'), server.version ? `Millrace ${server.version}` : 'Millrace');
}

// choose puts a stream on the stage, unless the visitor chose: the first of those that play best.
// It keeps the page's own choice while a browser can play that stream.
function choose() {
  if (picked) return;
  const shown = streams.find(({ name }) => name === selected);
  const best = Math.max(...streams.map(playable));
  if (shown && (playable(shown) > 1 || playable(shown) === best)) return;
  selected = streams.find((stream) => playable(stream) === best)?.name ?? '';
}

// playable says how well a browser can play a stream now: 0 is not at all, and 2 or more is well.
function playable(stream) {
  if (stream.format !== 'flv') return 0;
  if (stream.left_out === 'all') return 1;
  return stream.waiting_seconds > 0 ? 2 : 3;
}

function pick(name) {
  picked = true;
  selected = name;
  history.replaceState(null, '', `#/${address.path(name)}`);
  table.mark(name);
  showStage();
  stage.scrollTo();
}

function showStage() {
  document.title = selected ? `${selected} – Millrace` : 'Millrace';
  stage.show(selected, streams.find(({ name }) => name === selected), server);
}

// ---- beginning

// hashName reads the stream out of the address, so that a link leads to it: /#/NAME.
function hashName() {
  try {
    const name = decodeURIComponent(location.hash.replace(/^#\//, '').replace(/^#.*/, ''));
    return /(^|\/)\.*(\/|$)/.test(name) ? '' : name; // parts of dots would lead out of /live/
  } catch {
    return '';
  }
}

function followAddress() {
  const name = hashName();
  if (!name || name === selected) return;
  picked = true;
  selected = name;
  if (heard) {
    table.mark(name);
    showStage();
  }
}

window.addEventListener('hashchange', followAddress);
followAddress();
ask();

// The operator's page: the streams, the viewers of one of them, and buttons that end them.

import * as format from './format.js';

const element = (id) => document.getElementById(id);
const every = 1000; // ms between two questions

let selected = ''; // the stream whose viewers are shown

// call asks the server, and throws what it says if it refuses.
async function call(path, method = 'GET', body = undefined) {
  const answer = await fetch(path, { method, body, cache: 'no-store' });
  if (!answer.ok) throw new Error((await answer.text()).trim() || answer.statusText);
  return answer.status === 202 ? undefined : answer.json();
}

const streamPath = (name) => `api/streams/${name}`; // names need no escapes

// cell returns a table cell with a text, or with an element.
function cell(what, number = false) {
  const td = document.createElement('td');
  if (number) td.className = 'number';
  td.append(what);
  return td;
}

// button returns one that calls act when it is pressed twice: the first press asks.
function button(text, label, act) {
  const b = document.createElement('button');
  b.type = 'button';
  arm(b, text, act);
  b.setAttribute('aria-label', label);
  return b;
}

function arm(b, text, act) {
  let timer;
  b.classList.add('quiet');
  b.textContent = text;
  b.addEventListener('click', async () => {
    if (!timer) {
      b.textContent = 'Sure?';
      timer = setTimeout(() => { timer = undefined; b.textContent = text; }, 4000);
      return;
    }
    clearTimeout(timer);
    timer = undefined;
    b.disabled = true;
    refusal = '';
    try {
      await act();
    } catch (error) {
      refusal = error.message;
      b.disabled = false;
      b.textContent = text;
    }
    warn();
  });
}

let refusal = ''; // of the decision that was made last
let failure = ''; // of the question that was asked last

// warn shows what went wrong. A refusal stays until the next decision.
function warn() {
  element('banner').querySelector('p').textContent = refusal || failure;
  element('banner').hidden = !refusal && !failure;
}

// keep fills a table body with one row a thing. Rows stay while their things do, so that a button that was pressed once
// stays so.
function keep(body, things, key, fill) {
  const rows = new Map([...body.children].map((row) => [row.dataset.key, row]));
  const list = things.map((thing) => {
    const row = rows.get(String(key(thing))) ?? document.createElement('tr');
    row.dataset.key = key(thing);
    fill(row, thing);
    return row;
  });
  if (list.length !== body.children.length || list.some((row, i) => row !== body.children[i])) body.replaceChildren(...list);
}

// setCells replaces what a row shows, all but its last cell, which make makes once.
function setCells(row, cells, make) {
  const last = row.lastElementChild ?? cell(make());
  row.replaceChildren(...cells, last);
}

function showStreams(streams) {
  keep(element('streams'), streams, (s) => s.name, (row, s) => {
    row.classList.toggle('selected', s.name === selected);
    const pick = row.querySelector('.pick') ?? document.createElement('button');
    if (!pick.className) {
      pick.type = 'button';
      pick.className = 'pick plain';
      pick.textContent = s.name;
      pick.addEventListener('click', () => { selected = s.name; ask(); });
    }
    setCells(row, [cell(pick), cell(s.owner ? `node ${s.owner}` : s.publisher ?? ''), cell(format.rate(s.bits_per_second), true),
      cell(format.count(s.viewers), true), cell(format.duration(s.uptime_seconds), true)],
    () => button('End', `End the stream ${s.name}`, () => call(streamPath(s.name), 'DELETE')));
  });
}

function showViewers(answer) {
  element('viewers-section').hidden = !answer;
  if (!answer) return;
  const { stream, viewers } = answer;
  element('viewers-title').textContent = `Viewers of ${stream.name}`;
  element('viewers-note').textContent = `${viewers.length} of ${stream.viewers}, and ${stream.viewers_hls} over HLS`;
  keep(element('viewers'), viewers, (v) => v.id, (row, v) => {
    setCells(row, [cell(v.node ? `node ${v.node}` : v.address), cell(v.form), cell(format.bytes(v.bytes), true),
      cell(format.lag(v.behind_live_seconds), true), cell(format.duration(v.time_seconds), true)],
    () => button('End', `End the viewer ${v.address}`, () => call(`api/viewers/${v.id}`, 'DELETE')));
  });
}

function showPushes(pushes) {
  element('pushes-section').hidden = !pushes;
  if (!pushes) return;
  element('pushes-title').textContent = `Where ${selected} is sent on`;
  keep(element('pushes'), pushes.filter((p) => p.stream === selected), (p) => p.id, (row, p) => {
    const failed = `failed ${p.failures} times${p.gave_up ? ' and gave up' : ''}: ${p.reason}`;
    const state = p.connected ? 'connected' : p.reason ? failed : 'connecting';
    setCells(row, [cell(p.to), cell(state), cell(format.bytes(p.bytes), true), cell(format.duration(p.seconds), true)],
      () => button('End', `Send no more to ${p.to}`, () => call(`api/pushes/${p.id}`, 'DELETE')));
  });
}

async function ask() {
  failure = '';
  try {
    const { streams } = await call('api/streams');
    showStreams(streams);
    const exists = streams.some((s) => s.name === selected);
    showViewers(exists ? await call(streamPath(selected)) : undefined);
    showPushes(exists ? (await call('api/pushes')).pushes : undefined);
  } catch (error) {
    failure = error.message;
  }
  warn();
}

element('push').addEventListener('submit', async (event) => {
  event.preventDefault();
  refusal = '';
  try {
    await call('api/pushes', 'POST', JSON.stringify({ stream: selected, to: element('push-to').value.trim() }));
    element('push-to').value = '';
    await ask();
  } catch (error) {
    refusal = error.message;
  }
  warn();
});

arm(element('drain'), 'End the server', () => call('api/drain', 'POST'));
await ask();
setInterval(ask, every);

// The table of live streams: one row a stream, kept and updated in place.

import * as address from './address.js';
import * as format from './format.js';
import { write } from './copyable.js';
import { where } from './nodes.js';

const body = document.getElementById('rows');
const template = document.getElementById('row');
const rows = new Map(); // name -> {element, history}
const width = 120;
const height = 28;
const samples = 60; // one a second
const posterFor = 10000; // ms for which a poster is shown

// codecs says what a stream is made of.
export function codecs(stream) {
  const parts = [stream.video, stream.audio].filter(Boolean);
  if (stream.waiting_seconds > 0) parts.push('waiting for its publisher');
  if (format.silence(stream)) parts.push(format.silence(stream));
  if (parts.length > 0) return parts.join(' · ');
  return stream.format === 'flv' ? 'no video yet' : 'bytes, relayed unchanged';
}

// update shows the streams, sorted by name, marks the selected one, and calls pick(name) when a row is chosen. posters says
// whether to show their newest keyframes.
export function update(streams, selected, posters, pick) {
  const live = new Set(streams.map((stream) => stream.name));
  for (const [name, row] of rows) {
    if (!live.has(name)) {
      row.element.remove();
      rows.delete(name);
    }
  }
  streams.forEach((stream, i) => {
    let row = rows.get(stream.name);
    if (!row) {
      row = { element: template.content.firstElementChild.cloneNode(true), history: [], posterUntil: 0 };
      row.element.querySelector('.pick').addEventListener('click', () => pick(stream.name));
      rows.set(stream.name, row);
    }
    if (body.children[i] !== row.element) body.insertBefore(row.element, body.children[i] ?? null);
    fillRow(row, stream, stream.name === selected);
    if (posters) refreshPoster(row, stream);
  });
}

// mark moves the selection without waiting for the next figures.
export function mark(selected) {
  for (const [name, row] of rows) setSelected(row.element, name === selected);
}

function setSelected(element, on) {
  element.classList.toggle('selected', on);
  element.querySelector('.pick').setAttribute('aria-pressed', String(on));
}

function fillRow(row, stream, selected) {
  const cell = (selector) => row.element.querySelector(selector);
  setSelected(row.element, selected);
  write(cell('.name'), stream.name);
  write(cell('.codec'), codecs(stream));
  write(cell('.where'), where(stream));
  write(cell('.rate'), format.rate(stream.bits_per_second));
  write(cell('.viewers span'), format.count(stream.viewers));
  write(cell('.lag span'), stream.viewers > 0 ? format.lag(stream.lag_seconds_max) : '–');
  write(cell('td.age'), format.duration(stream.uptime_seconds));
  write(cell('.viewers small'), stream.stalled > 0 ? `${format.count(stream.stalled)} stalled` : '');
  write(cell('.lag small'), stream.frames_lost > 0 ? `${format.count(stream.frames_lost)} lost` : '');
  trend(row, Number(stream.bits_per_second) || 0);
}

// refreshPoster shows the newest keyframe of a stream. It asks only for rows that are on the screen, and only for streams
// of this page's node, which would otherwise pull them.
function refreshPoster(row, stream) {
  const now = performance.now();
  if (!stream.here || !stream.video || ['all', 'video'].includes(stream.left_out) || now < row.posterUntil || !isOnScreen(row.element)) return;
  row.posterUntil = now + posterFor;
  const next = document.createElement('video'); // takes the place of the last one when it has its picture
  next.muted = true;
  next.preload = 'auto';
  next.addEventListener('loadeddata', () => {
    const place = row.element.querySelector('.poster');
    if (place.firstElementChild) unload(place.firstElementChild);
    place.replaceChildren(next);
  });
  next.addEventListener('error', () => (row.posterUntil = now + 6 * posterFor)); // there may be no keyframe yet
  next.src = address.http(stream.name, '/poster.mp4');
}

// unload frees the decoder of a video, of which a browser has few.
function unload(video) {
  video.removeAttribute('src');
  video.load();
}

function isOnScreen(element) {
  const { top, bottom } = element.getBoundingClientRect();
  return bottom > 0 && top < window.innerHeight;
}

// trend draws the rate of the last minute, from nothing at the bottom to a little above the most.
function trend(row, value) {
  row.history.push(value);
  if (row.history.length > samples) row.history.shift();
  const most = Math.max(...row.history, 1) * 1.15;
  const step = width / (samples - 1);
  const first = width - step * (row.history.length - 1);
  const points = row.history.map((v, i) => `${(first + i * step).toFixed(1)} ${(height - 1 - (v / most) * (height - 2)).toFixed(1)}`);
  const line = `M${points.join('L')}`;
  row.element.querySelector('.line').setAttribute('d', line);
  row.element.querySelector('.area').setAttribute('d', `${line}L${width} ${height}L${first.toFixed(1)} ${height}Z`);
}

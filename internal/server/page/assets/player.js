// The player: one <video> that follows one stream, comes back when the stream does, and is always live.

import * as address from './address.js';
import { write } from './copyable.js';

const screen = document.getElementById('screen');
const video = document.getElementById('video');
const message = document.getElementById('message');

const longestWait = 8000; // ms between two attempts
const longestPause = 3000; // ms; after a longer pause the player goes on with the live picture

// How far the player may be behind live, in seconds. It begins at the last key frame, which may be long ago.
const near = 1; // as close as it wants to be
const far = 3; // further behind, it jumps
const jump = 4; // by playing so fast: no browser seeks in an MP4 without an end
const fresh = 3; // for how long it is known where live is

// Safari plays no MP4 without an end, but HLS by itself.
const forms = video.canPlayType('application/vnd.apple.mpegurl') ? ['.mp4', '/index.m3u8'] : ['.mp4'];

let form = 0; // of forms: what is tried, or what has played
let proven = false; // a form has played
let name = ''; // the stream that is followed; empty if there is none
let live = false; // the server lists it, and it is video
let failures = 0; // attempts in a row that showed no picture
let retry = 0; // timer of the next attempt
let pausedAt = 0;
let jumping = false;
let edge = { time: 0, at: 0 }; // where live was in the video, and when; see performance.now

// follow puts a stream on the screen, or none (''). If it cannot be played now, obstacle says why; call it again as that
// changes, and with the time in its MP4 that is live.
export function follow(stream, obstacle = '', time = 0) {
  edge = { time, at: performance.now() };
  const was = live && name;
  name = stream;
  live = stream !== '' && obstacle === '';
  if (live) {
    if (was === name) return;
    video.setAttribute('aria-label', `Player: ${name}`);
    failures = 0;
    connect();
    return;
  }
  disconnect();
  show('away', obstacle);
}

function connect() {
  clearTimeout(retry);
  pausedAt = 0;
  jumping = false;
  show('waiting', trouble());
  video.src = address.http(name, forms[form]);
  video.play().catch(() => {}); // refused when the browser wants a click first: the controls are there
}

function disconnect() {
  clearTimeout(retry);
  if (!video.hasAttribute('src')) return;
  video.removeAttribute('src');
  video.load(); // closes the connection
}

function connectLater() {
  if (!live || !video.hasAttribute('src')) return;
  failures++;
  if (!proven) form = (form + 1) % forms.length;
  const wait = form > 0 && failures === 1 ? 0 : Math.min(500 * 2 ** failures, longestWait);
  show('waiting', trouble());
  clearTimeout(retry);
  retry = setTimeout(connect, wait);
}

// trouble says that nothing has played, or '' if the next attempt may.
function trouble() {
  return failures < 3 ? '' : 'This browser cannot play the stream. Open one of the addresses below in ffplay or VLC.';
}

// keepUp plays faster while the player is behind. HLS is for the browser to keep up with.
function keepUp() {
  if (forms[form] !== '.mp4') return;
  const passed = (performance.now() - edge.at) / 1000;
  const behind = edge.time > 0 && passed < fresh ? edge.time + passed - video.currentTime : 0;
  jumping = behind > (jumping ? 2 * near : far);
  const rate = jumping ? jump : Math.min(Math.max(1, 1 + (behind - near) / 10), 1.1);
  if (video.playbackRate !== rate) video.playbackRate = rate;
}

function show(state, text) {
  screen.dataset.state = state;
  write(message, text);
}

video.addEventListener('timeupdate', keepUp);
video.addEventListener('playing', () => {
  failures = 0;
  proven = true;
  show('playing', '');
});
video.addEventListener('waiting', () => live && show('waiting', trouble()));
video.addEventListener('ended', connectLater);
video.addEventListener('error', connectLater);
video.addEventListener('pause', () => {
  pausedAt = performance.now();
  if (live && !video.error && !video.ended && failures === 0) show('paused', ''); // else the browser has paused
});
video.addEventListener('play', () => {
  if (live && pausedAt > 0 && performance.now() - pausedAt > longestPause) connect();
});

// The player: one <video> that follows one stream, comes back when the stream does, and is always live.

import * as address from './address.js';
import { write } from './copyable.js';

const screen = document.getElementById('screen');
const video = document.getElementById('video');
const message = document.getElementById('message');

const longestWait = 8000; // ms between two attempts
const patience = 15000; // ms for an answer; the server may wait for a publisher or ask a hook
const longestPause = 3000; // ms; after a longer pause the player goes on with the live picture

// How far the player may be behind live, in seconds. It begins at the last keyframe, which may be long ago.
const near = 1; // as close as it wants to be
const far = 3; // further behind, it jumps
const jump = 4; // by playing so fast: no browser seeks in an MP4 without an end
const fresh = 3; // for how long it is known where live is

// overHLS says that this browser gets HLS: Safari plays no MP4 without an end. Other browsers play
// that, and keepUp holds them near live, also those that could play HLS.
export const overHLS =
  navigator.vendor.startsWith('Apple') && video.canPlayType('application/vnd.apple.mpegurl') !== '';
const form = overHLS ? '/index.m3u8' : '.mp4';

let name = ''; // the stream that is followed; empty if there is none
let live = false; // the server lists it, and it is video
let failures = 0; // attempts in a row that showed no picture
let unplayed = 0; // of these, the ones that the server answered
let refusal = ''; // why the server does not play the stream; '' if it does, or is not asked yet
let question; // AbortController of the last one to the server, see ask
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
    succeed();
    connect();
    return;
  }
  disconnect();
  show('away', obstacle);
}

// succeed forgets what went wrong.
function succeed() {
  failures = 0;
  unplayed = 0;
  refusal = '';
}

// cancelRetry cancels the next attempt, and the question that comes before it.
function cancelRetry() {
  clearTimeout(retry);
  question?.abort();
  question = undefined;
}

function connect() {
  cancelRetry();
  pausedAt = 0;
  jumping = false;
  show('waiting', trouble());
  video.src = address.http(name, form);
  video.play().catch(() => {}); // refused when the browser wants a click first: the controls are there
}

function disconnect() {
  cancelRetry();
  if (!video.hasAttribute('src')) return;
  video.removeAttribute('src');
  video.load(); // closes the connection
}

async function connectLater() {
  if (!live || !video.hasAttribute('src')) return;
  cancelRetry();
  failures++;
  show('waiting', trouble());
  let answer = '';
  if (video.error) {
    const asked = new AbortController();
    question = asked;
    answer = await ask(asked);
    if (question !== asked) return; // another attempt has begun, or the stream has gone
  }
  refusal = answer;
  unplayed = refusal ? 0 : unplayed + 1;
  show('waiting', trouble());
  retry = setTimeout(connect, Math.min(500 * 2 ** failures, longestWait));
}

// ask asks the server for the stream again, because a <video> hides the status of the answer. It
// returns why the server does not play the stream, or '' if it does.
async function ask(question) {
  const timer = setTimeout(() => question.abort(), patience);
  try {
    const url = address.http(name, form);
    const answer = await fetch(url, { cache: 'no-store', signal: question.signal });
    if (answer.ok) return '';
    // The server gives its reason in one line. A proxy in front of it may answer with a page.
    const plain = answer.headers.get('Content-Type')?.startsWith('text/plain');
    const line = plain ? (await answer.text()).trim().split('\n')[0] : '';
    const reason = line || `${answer.status} ${answer.statusText}`.trimEnd();
    return `The server refuses to play this stream: ${reason}`;
  } catch {
    return 'The server does not answer.';
  } finally {
    clearTimeout(timer);
    question.abort(); // closes the connection: the stream itself is for the <video>
  }
}

// trouble says why nothing has played, or '' if the next attempt may.
function trouble() {
  if (refusal || unplayed < 3) return refusal;
  return 'This browser cannot play the stream. Open one of the addresses below in ffplay or VLC.';
}

// keepUp plays faster while the player is behind. HLS is for the browser to keep up with.
function keepUp() {
  if (overHLS) return;
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
  succeed();
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

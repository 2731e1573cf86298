// The stage: the player with the figures of the stream that it plays, and how to watch that one elsewhere.

import * as address from './address.js';
import * as format from './format.js';
import * as nodes from './nodes.js';
import * as player from './player.js';
import { fill, write } from './copyable.js';

const stage = document.getElementById('stage');
const title = document.getElementById('stage-name');
const badge = document.getElementById('stage-badge');
const watch = document.getElementById('watch');
const watchHint = document.getElementById('watch-hint');

// show puts the named stream on the stage; '' leaves the stage empty. stream is what the server said of it, undefined if
// it is not live, and server what the server said of itself.
export function show(name, stream, server) {
  stage.hidden = name === '';
  player.follow(name, obstacle(stream), stream?.mp4_time_seconds);
  if (!name) return;
  write(title, name);
  const waits = stream?.waiting_seconds > 0;
  const silence = format.silence(stream);
  write(badge, waits ? 'Waiting for its publisher' : silence ? `Live, ${silence}` : stream ? 'Live' : 'Not live');
  badge.classList.toggle('off', !stream || waits || silence !== '');
  showFacts(stream, server.operator === true);
  fill(watch, watchLines(name, stream, server));
  write(watchHint, partly(stream) + address.hint(server));
}

// scrollTo brings the stage into view.
export function scrollTo() {
  const calm = matchMedia('(prefers-reduced-motion: reduce)').matches;
  stage.scrollIntoView({ block: 'nearest', behavior: calm ? 'auto' : 'smooth' });
}

// obstacle says why a stream cannot be played here; empty if it can.
function obstacle(stream) {
  if (!stream) return 'This stream is not live. It plays when it starts.';
  if (stream.format !== 'flv') return 'This stream is not a video format for browsers. It is relayed unchanged.';
  if (stream.left_out === 'all') return `Browsers cannot play this stream: ${codecs(stream)} is not supported in MP4 and HLS. Open it in ffplay or VLC.`;
  return '';
}

// codecs names what a stream is made of.
const codecs = (stream) => [stream.video, stream.audio].filter(Boolean).join(' and ');

// partly says what a browser does not get of a stream that it plays; '' if it gets all.
function partly(stream) {
  if (stream?.left_out === 'video') return `Browsers get only the audio: ${stream.video} is not supported in MP4 and HLS. `;
  if (stream?.left_out === 'audio') return `Browsers get only the video: ${stream.audio} is not supported in MP4 and HLS. `;
  return '';
}

// watchLines says how to watch a stream, also one that is still to come.
function watchLines(name, stream, server) {
  const token = address.access(server);
  const full = (form) => address.http(name, form) + token;
  const quoted = (form) => (token ? `"${full(form)}"` : full(form)); // shells expand a question mark
  const rtmp = address.rtmp(server);
  if (stream && stream.format !== 'flv') return [{ label: 'Read it from a program', text: `curl -N ${quoted('')}` }];
  const browsers = [
    { label: 'In a browser', text: full('.mp4') },
    { label: 'On a phone or a television, over HLS', text: full('/index.m3u8') },
    { label: 'In a page of yours', text: `<iframe src="${full('/')}" allow="autoplay; fullscreen"></iframe>` },
  ];
  return [
    ...(stream?.left_out === 'all' ? [] : browsers),
    { label: 'With ffplay', text: `ffplay -fflags nobuffer ${quoted('.flv')}` },
    { label: 'With VLC', text: `vlc ${quoted('.flv')}` },
    ...(rtmp ? [{ label: 'Over RTMP', text: `${rtmp.address}/${address.path(name)}${token}` }] : []),
  ];
}

const overHLS = 'over HLS: the browser decides how far behind live';

// facts are the figures of a stream, for viewers or for an operator.
function facts(stream, operator) {
  if (!stream) return [['Published by', 'no publisher']];
  return [
    ['Video', stream.video || '–'],
    ['Audio', stream.audio || '–'],
    ...(player.overHLS && !obstacle(stream) ? [['Played here', overHLS]] : []),
    ['Rate', format.rate(stream.bits_per_second)],
    ['Viewers', format.count(stream.viewers) + part(stream.viewers_mp4, 'as MP4') + part(stream.viewers_rtmp, 'over RTMP') + part(stream.viewers_hls, 'more over HLS')],
    ...(operator ? [['Slowest viewer', stream.viewers > 0 ? `${format.lag(stream.lag_seconds_max)} behind` : '–']] : []),
    ...(operator ? [['Frames lost', format.count(stream.frames_lost)]] : []),
    ['Live for', format.duration(stream.uptime_seconds)],
    ...(operator ? [['Kept for new viewers', format.bytes(stream.kept_bytes) + tooLong(stream.groups_cut)]] : []),
    ...(operator ? [['Memory', `${format.bytes(stream.memory_bytes)}, at most ${format.bytes(stream.memory_high_water)}`]] : []),
    ...(stream.behind_live_seconds_max > 0 ? [['Furthest from live', format.lag(stream.behind_live_seconds_max)]] : []),
    ...(stream.key_interval_seconds > 0 ? [['Keyframes', `every ${format.lag(stream.key_interval_seconds)}${tooFar(stream.key_interval_seconds)}`]] : []),
    ...(stream.publisher ? [['Published by', stream.publisher]] : []), // other machines are not told
    ...nodes.facts(stream),
    ...comings(stream),
  ];
}

// part says how many of the viewers watch in one way, if there are any.
function part(n, how) {
  return n > 0 ? `, ${format.count(n)} ${how}` : '';
}

// comings says how often the stream got another publisher, and how long it has been without one.
function comings(stream) {
  const list = [];
  if (stream.waiting_seconds > 0) list.push(['Without a publisher for', format.duration(stream.waiting_seconds)]);
  if (stream.returns > 0) list.push(['Publisher came back', times(stream.returns)]);
  if (stream.takeovers > 0) list.push(['Publisher replaced', times(stream.takeovers)]);
  return list;
}

function times(n) {
  return n === 1 ? 'once' : `${format.count(n)} times`;
}

// tooFar warns that viewers are late, because they begin at a keyframe.
function tooFar(seconds) {
  return seconds > 4 ? ', which is long: viewers start up to that far behind. Set 2 s in the encoder' : '';
}

// tooLong warns that latecomers have to wait.
function tooLong(groups) {
  if (!groups) return '';
  return groups > 1 ? `; ${format.count(groups)} GOPs were too long` : '; a GOP was too long';
}

function showFacts(stream, operator) {
  const list = document.getElementById('facts');
  const wanted = facts(stream, operator);
  while (list.children.length > wanted.length) list.lastElementChild.remove();
  wanted.forEach(([term, text], i) => {
    let row = list.children[i];
    if (!row) {
      row = document.createElement('div');
      row.append(document.createElement('dt'), document.createElement('dd'));
      list.append(row);
    }
    write(row.firstElementChild, term);
    write(row.lastElementChild, text);
  });
}

// How to publish: who may, what to enter in OBS, and the commands, for the name in the field.

import * as address from './address.js';
import { fill, write } from './copyable.js';

const element = (id) => document.getElementById(id);
const field = element('name');
const valid = /^[A-Za-z0-9._-]+(\/[A-Za-z0-9._-]+){0,3}$/;
const dots = /(^|\/)\.+(\/|$)/; // a part of dots alone
const ends = /\.(mp4|flv)$|\/(.*\.(m3u8|m4s)|[0-9a-z]+-i[0-9]+)$/; // of a format, or of an object of HLS
const rule = 'A name is up to 128 letters, digits, dots, dashes and underscores, in up to four parts separated by /, none of dots alone, without the ending of a format or of HLS, such as in .mp4, .flv or .m3u8.';

let taken = new Set();
let policy = ''; // who may publish by HTTP, in the server's words: open, token, hook or off
let rtmp; // where RTMP is, see address.rtmp

// named says whether the server takes a stream of that name.
function named(name) {
  return name.length <= 128 && valid.test(name) && !dots.test(name) && !ends.test(name);
}

function commands(name) {
  const encode = '-c:v libx264 -preset veryfast -tune zerolatency -pix_fmt yuv420p -g 50 -c:a aac';
  const token = policy === 'token' ? '-headers "Authorization: Bearer TOKEN" ' : '';
  // Asked to expect 100, ffmpeg waits for the server's word and shows a refusal. Otherwise it sends on and shows nothing.
  const to = `-f flv -flvflags no_duration_filesize ${token}-send_expect_100 1 -method POST ${address.http(name)}`;
  return [
    { label: 'A test video', text: `ffmpeg -re -f lavfi -i testsrc2=size=1280x720:rate=25 -f lavfi -i sine=frequency=220 ${encode} ${to}` },
    { label: 'A file with H.264 and AAC, as it is', text: `ffmpeg -re -i film.mp4 -c copy ${to}` },
    { label: 'Any other file, encoded on the way', text: `ffmpeg -re -i film.mp4 ${encode} ${to}` },
  ];
}

// settings are what OBS asks for.
function settings(name) {
  return [
    { label: 'Server', text: rtmp.address },
    { label: 'Stream key', text: policy === 'token' ? `${name}?token=TOKEN` : name },
  ];
}

// rtmpWorks says whether streams can be published by RTMP from where this page is seen.
function rtmpWorks() {
  return rtmp !== undefined && (policy === 'token' || policy === 'hook' || rtmp.loopback);
}

// obstacle is why publishing by HTTP is impossible from where this page is seen, or ''.
function obstacle() {
  if (policy === 'off') {
    return 'Publishing is off: other machines can reach this server, and it was started without --publish-token.';
  }
  if (policy === 'open' && !address.here) {
    return `Without --publish-token this server accepts streams sent to localhost only, not to ${location.hostname}.`;
  }
  return '';
}

function refresh() {
  const name = field.value.trim();
  const ok = named(name);
  const why = obstacle();
  const withOBS = ok && rtmpWorks();
  const withFFmpeg = ok && !why;
  field.setAttribute('aria-invalid', String(!ok));
  write(element('name-hint'), ok ? (taken.has(name) ? `${name} is live already: a second publisher takes over or is refused, as --takeover says.` : '') : rule);
  write(element('publish-hint'), hint(why));
  element('name-field').hidden = why !== '' && !rtmpWorks();
  element('rtmp-title').hidden = !withOBS;
  element('commands-title').hidden = !(withOBS && withFFmpeg);
  fill(element('rtmp'), withOBS ? settings(name) : []);
  fill(element('commands'), withFFmpeg ? commands(name) : []);
}

// hint says what a publisher needs beside the lines. why is the obstacle.
function hint(why) {
  if (why) return rtmpWorks() ? `This server accepts streams over RTMP only. ${why}` : why;
  if (policy === 'token') return 'Put the token that the server was started with (--publish-token) in the place of TOKEN.';
  if (policy === 'hook') return 'The server asks a hook: the name may be a secret stream key, which viewers do not see.';
  if (rtmp && !rtmpWorks()) return 'RTMP accepts no streams: other machines can reach it, and --publish-token is not set.';
  return '';
}

// update takes the names that are live, and what the server says of itself.
export function update(names, server) {
  taken = new Set(names);
  policy = server.publish ?? '';
  rtmp = address.rtmp(server);
  const off = obstacle() !== '' && !rtmpWorks();
  const near = address.here && server.loopback;
  write(element('publish-note'), off ? '' : `With ${rtmpWorks() ? 'OBS or ffmpeg' : 'ffmpeg'}, ${near ? 'on the machine that the server runs on' : 'from any machine that reaches this one'}`);
  element('empty-how').hidden = off;
  refresh();
}

field.addEventListener('input', refresh);

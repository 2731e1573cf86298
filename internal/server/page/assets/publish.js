// How to publish: the commands for the name in the field.

import { fill, write } from './copyable.js';
import { address } from './player.js';

const field = document.getElementById('name');
const hint = document.getElementById('name-hint');
const commands = document.getElementById('commands');
const valid = /^[A-Za-z0-9._-]{1,64}$/;

let taken = new Set();

function lines(name) {
  const url = address(name);
  const encode = '-c:v libx264 -preset veryfast -tune zerolatency -pix_fmt yuv420p -g 50 -c:a aac -f flv';
  return [
    { label: 'A test picture, to see that it works', text: `ffmpeg -re -f lavfi -i testsrc2=size=1280x720:rate=25 -f lavfi -i sine=frequency=220 ${encode} ${url}` },
    { label: 'A file with H.264 and AAC, as it is', text: `ffmpeg -re -i FILE -c copy -f flv ${url}` },
    { label: 'Any other file, encoded on the way', text: `ffmpeg -re -i FILE ${encode} ${url}` },
  ];
}

function refresh() {
  const name = field.value.trim();
  const ok = valid.test(name);
  field.setAttribute('aria-invalid', String(!ok));
  if (!ok) {
    write(hint, 'Letters, digits, dots, dashes and underscores, 64 at most.');
    return;
  }
  write(hint, taken.has(name) ? `${name} is live already: a second publisher is refused.` : '');
  fill(commands, lines(name));
}

// update takes the names that are live.
export function update(names) {
  taken = new Set(names);
  refresh();
}

field.addEventListener('input', refresh);
document.getElementById('token-hint').hidden = /^(localhost|127\..*|\[::1\])$/.test(location.hostname);

// Lines to copy: a label, a command or an address, and a button.

const template = document.getElementById('copyable');
const longestWord = 20; // fits into a line on a telephone
const announcer = document.getElementById('announce');

// say has a screen reader speak without moving the focus.
export function say(text) {
  announcer.textContent = text;
}

// fill shows the given lines, [{label, text}], in parent. Lines that are there already are kept, and with them the focus.
export function fill(parent, lines) {
  while (parent.children.length > lines.length) parent.lastElementChild.remove();
  lines.forEach(({ label, text }, i) => {
    const line = parent.children[i] ?? parent.appendChild(make());
    write(line.querySelector('.label'), label);
    writeWords(line.querySelector('code'), text);
    line.querySelector('.copy').setAttribute('aria-label', `Copy: ${label}`);
  });
}

// write changes the text of an element if it is another one, so that a selection stays.
export function write(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

// writeWords writes a command so that a line breaks between its words and not after the dash of an option. Only a word
// that may be too long for a line of its own breaks within.
function writeWords(code, text) {
  if (code.textContent === text) return;
  const parts = text.split(' ').flatMap((word, i) => {
    if (word.length > longestWord) return i ? [' ', word] : [word];
    const span = document.createElement('span');
    span.textContent = word;
    return i ? [' ', span] : [span];
  });
  code.replaceChildren(...parts);
}

function make() {
  const line = template.content.firstElementChild.cloneNode(true);
  const button = line.querySelector('.copy');
  let restore;
  button.addEventListener('click', async () => {
    const done = await copy(line.querySelector('code'));
    button.textContent = done ? 'Copied' : 'Press Ctrl+C';
    button.classList.toggle('done', done);
    say(done ? 'Copied' : 'Selected: press Ctrl+C to copy');
    clearTimeout(restore);
    restore = setTimeout(() => {
      button.textContent = 'Copy';
      button.classList.remove('done');
    }, 2000);
  });
  return line;
}

// copy puts the element's text on the clipboard. Browsers offer the clipboard on https and localhost only; elsewhere the
// text is selected and copied in the old way, and if even that is refused it stays selected.
async function copy(element) {
  try {
    await navigator.clipboard.writeText(element.textContent);
    return true;
  } catch {
    const selection = getSelection();
    selection.selectAllChildren(element);
    const done = document.execCommand('copy');
    if (done) selection.removeAllRanges();
    return done;
  }
}

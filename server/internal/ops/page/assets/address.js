// The addresses of streams, as seen from this page.

// here says that this page was opened on the machine that the server runs on, or through a tunnel that ends there.
export const here = /^(localhost|.*\.localhost|127\..*|\[::1\])$/.test(location.hostname);

// shown is the token that this page was opened with, or ''. Links of the page itself work without it: there is a cookie.
// It is as it was typed: "+" and "%" in it are not for this page to read.
const typed = /[?&]token=([^&]*)/.exec(location.search)?.[1] ?? '';
const shown = typed.replace(/[^\w.~%+=/-]/g, encodeURIComponent); // also for a shell

// access returns what an address needs for another program to read: '', or the token as a query. Where the page does not
// know the token, there is a place for it.
export function access(server) {
  return server.read === 'token' ? `?token=${shown || 'READ_TOKEN'}` : '';
}

// hint says what to do about the token in an address.
export function hint(server) {
  if (server.read !== 'token') return '';
  if (shown) return 'These addresses contain the token of this page. Everyone who has one can watch all streams.';
  return 'Put the token that the server was started with (--read-token) in the place of READ_TOKEN.';
}

const usual = { rtmp: 1935, rtmps: 443 }; // the port of an address that names none

// path returns the name of a stream as it stands in an address: its slashes stay.
export function path(stream) {
  return encodeURIComponent(stream).replaceAll('%2F', '/');
}

// http returns the address of a stream in one of its forms: '', '.flv', '.mp4' or '/index.m3u8'.
export function http(stream, form = '') {
  return new URL(`live/${path(stream)}${form}`, document.baseURI).href;
}

// rtmp returns where RTMP is, {address, loopback}, or undefined if it is off or this machine cannot reach it. Streams are
// below the address. server is what the server said of itself.
export function rtmp(server) {
  const order = location.protocol.startsWith('https') ? ['rtmps', 'rtmp'] : ['rtmp', 'rtmps'];
  const scheme = order.find((s) => server[s] > 0 && (here || !server[`${s}_loopback`]));
  if (!scheme) return undefined;
  const port = server[scheme] === usual[scheme] ? '' : `:${server[scheme]}`;
  return { address: `${scheme}://${location.hostname}${port}/live`, loopback: Boolean(server[`${scheme}_loopback`]) };
}

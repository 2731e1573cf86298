// How figures are written. Every function takes what the server sends and never fails on a missing figure.

const thousand = 1000;

// scaled writes n with three digits that count and the unit it needs: 2150000 becomes "2.15 Mbit/s".
function scaled(n, units) {
  let value = Number(n) || 0;
  let i = 0;
  while (value >= thousand - 0.5 && i < units.length - 1) {
    value /= thousand;
    i++;
  }
  const digits = i === 0 || value >= 99.95 ? 0 : value >= 9.995 ? 1 : 2;
  return `${value.toFixed(digits)} ${units[i]}`;
}

export const rate = (bitsPerSecond) => scaled(bitsPerSecond, ['bit/s', 'kbit/s', 'Mbit/s', 'Gbit/s']);

export const bytes = (n) => scaled(n, ['B', 'kB', 'MB', 'GB', 'TB', 'PB']);

export const count = (n) => (Number(n) || 0).toLocaleString('en').replaceAll(',', '\u202f');

// lag writes a short time: milliseconds below one second.
export function lag(seconds) {
  const s = Number(seconds) || 0;
  if (s < 0.9995) return `${Math.round(s * 1000)} ms`;
  return s < 60 ? `${s.toFixed(1)} s` : duration(s);
}

// silence says that nothing comes; '' while frames do, or the stream waits for its publisher.
export function silence(stream) {
  const s = Math.floor(Number(stream?.silent_seconds) || 0);
  return s >= 2 && !(stream.waiting_seconds > 0) ? `silent for ${duration(s)}` : '';
}

// duration writes a long time in its two largest units.
export function duration(seconds) {
  const s = Math.floor(Number(seconds) || 0);
  if (s < 60) return `${s} s`;
  const minutes = Math.floor(s / 60);
  if (minutes < 60) return `${minutes} min ${s % 60} s`;
  const hours = Math.floor(minutes / 60);
  if (hours < 24) return `${hours} h ${minutes % 60} min`;
  return `${Math.floor(hours / 24)} d ${hours % 24} h`;
}

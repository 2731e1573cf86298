// What the nodes of a cluster say, put together: one entry for each stream, wherever it is.

const byName = (a, b) => (a.name < b.name ? -1 : 1);

// merge returns the streams of all nodes in an answer of the server, sorted by name, and what the nodes are together.
// An entry has the figures of the node where the stream is published, the viewers of all nodes, and with more than one
// node where it is: published, the address of that node or '', and pulled, those of the others. here says that the node of
// this page has the stream.
export function merge(answer) {
  const server = answer.server ?? {};
  const own = { node: server.node ?? '', server, streams: answer.streams ?? [] };
  const nodes = [own, ...(answer.nodes ?? [])];
  const entries = new Map();
  for (const { node, streams } of nodes) {
    for (const stream of streams ?? []) add(entries, node, stream, node === own.node);
  }
  const streams = [...entries.values()].sort(byName);
  if (!own.node) return { streams, server, nodes: [] };
  const sum = (field) => nodes.reduce((n, node) => n + (Number(node.server?.[field]) || 0), 0);
  const total = {
    streams: streams.length,
    viewers: streams.reduce((n, stream) => n + stream.viewers, 0),
    bytes_out: sum('bytes_out'),
  };
  return { streams, server: { ...server, ...total }, nodes };
}

// viewers are those of a stream at a node that are not nodes themselves.
const viewers = (stream) => Math.max(0, (Number(stream.viewers) || 0) - (stream.edges ?? []).length);

function add(entries, node, stream, here) {
  const known = entries.get(stream.name);
  const published = stream.owner ? '' : node;
  const pulled = stream.owner ? [node] : [];
  if (!known) {
    entries.set(stream.name, { ...stream, viewers: viewers(stream), published, pulled, here });
    return;
  }
  // Of two nodes that both believe to have the publisher, the later one is right.
  const newer = published && (!known.published || (Number(stream.epoch) || 0) > (Number(known.epoch) || 0));
  entries.set(stream.name, {
    ...(newer ? stream : known),
    viewers: known.viewers + viewers(stream),
    viewers_mp4: (Number(known.viewers_mp4) || 0) + (Number(stream.viewers_mp4) || 0),
    viewers_rtmp: (Number(known.viewers_rtmp) || 0) + (Number(stream.viewers_rtmp) || 0),
    stalled: (Number(known.stalled) || 0) + (Number(stream.stalled) || 0),
    frames_lost: (Number(known.frames_lost) || 0) + (Number(stream.frames_lost) || 0),
    lag_seconds_max: Math.max(Number(known.lag_seconds_max) || 0, Number(stream.lag_seconds_max) || 0),
    behind_live_seconds_max: Math.max(Number(known.behind_live_seconds_max) || 0, Number(stream.behind_live_seconds_max) || 0),
    mp4_time_seconds: known.mp4_time_seconds, // of this node, whose MP4 the page plays
    published: newer ? published : known.published,
    here: known.here || here,
    pulled: [...known.pulled, ...pulled],
  });
}

// short writes the address of a node.
const short = (node) => node.replace(/^https?:\/\//, '');

// most is how many nodes are named.
const most = 3;

// pulledBy names the nodes that pull a stream; '' for none.
export function pulledBy({ pulled = [] }) {
  return pulled.length > most ? `${pulled.length} nodes` : pulled.map(short).join(', ');
}

// where says in which nodes a stream is; '' on a server that is alone.
export function where(stream) {
  const parts = [];
  if (stream.published) parts.push(`at ${short(stream.published)}`);
  if (stream.pulled?.length > 0) parts.push(`pulled by ${pulledBy(stream)}`);
  return parts.join(', ');
}

// facts says the same for the stage.
export function facts(stream) {
  const list = [];
  if (stream.published) list.push(['Published at', short(stream.published)]);
  if (stream.pulled?.length > 0) list.push(['Pulled by', pulledBy(stream)]);
  return list;
}

// count says how many of the nodes answer; '' on a server that is alone.
export function count(nodes) {
  if (nodes.length === 0) return '';
  const silent = nodes.filter((node) => node.error).length;
  const all = `${nodes.length} ${nodes.length === 1 ? 'node' : 'nodes'}`;
  return silent > 0 ? `${nodes.length - silent} of ${all} answer` : all;
}

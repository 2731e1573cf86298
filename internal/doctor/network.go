package doctor

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
)

// usualBacklog is what Linux has for net.core.somaxconn since 5.4. More is of no use: Go accepts tens of thousands of
// connections a second.
const usualBacklog = 4096

func backlog(h *Host, p Plan) Finding {
	name := "net.core.somaxconn"
	if h.OS == "darwin" {
		name = "kern.ipc.somaxconn"
	}
	most, err := h.number(name)
	if err != nil {
		return unknown(err)
	}
	want := int64(min(p.Viewers, usualBacklog))
	f := Finding{
		State: OK, Value: count(most),
		Why: fmt.Sprintf("So many connections may wait to be accepted. After a restart all %d viewers come back at "+
			"once; who finds the queue full tries again after a second or more.", p.Viewers),
	}
	if h.OS == "linux" {
		f.Why += " Go reads it once, when the server begins to listen."
	}
	if most < want {
		f.State = Warn
		f.Advice = fmt.Sprintf("allow %d, and restart the server", usualBacklog)
		f.Command = fmt.Sprintf("sysctl -w %s=%d", name, usualBacklog)
	}
	return f
}

const conntrackDir = "net.netfilter.nf_conntrack_"

func conntrack(h *Host, p Plan) Finding {
	most, err := h.number(conntrackDir + "max")
	f := Finding{
		State: OK, Value: "not loaded",
		Why: "Nothing on this machine keeps a table of connections that could be full. A router or firewall before " +
			"it may.",
	}
	if errors.Is(err, fs.ErrNotExist) {
		return f
	}
	if err != nil {
		return unknown(err)
	}
	used, err := h.number(conntrackDir + "count")
	if err != nil {
		return unknown(err)
	}
	need := used + int64(p.Viewers) + int64(p.Streams)
	f.Value = fmt.Sprintf("%s (in use: %s)", count(most), count(used))
	f.Why = "The firewall remembers every connection, and for two minutes those that were closed. When its table " +
		"is full the packets of new ones are dropped, and only the kernel's log tells."
	switch {
	case most < need:
		f.State = Bad
	case most < 2*need: // those that were closed
		f.State = Warn
	default:
		return f
	}
	f.Advice = fmt.Sprintf("allow %d, or have the firewall not track the server's port", roundUp(2*need))
	f.Command = fmt.Sprintf("sysctl -w %smax=%d", conntrackDir, roundUp(2*need))
	return f
}

const (
	// leastBuffer is a buffer below which distance decides over speed. About half of a buffer is data, and one buffer of
	// data can be on its way at a time: 1 MiB is 5 MB/s, 42 Mbit/s, to somebody who is 100 ms away.
	leastBuffer = 1 << 20
	// roundTrips in a second, to somebody who is 100 ms away.
	roundTrips = 10
)

// tcpBuffer judges the range in which the kernel sizes a connection's buffers. What is advised is the kernel's default.
func tcpBuffer(h *Host, name, advised, why string) Finding {
	n, err := h.numbers(name, 3)
	if err != nil {
		return unknown(err)
	}
	least, usual, most := n[0], n[1], n[2]
	f := Finding{
		State: OK, Value: fmt.Sprintf("%d %d %d", least, usual, most),
		Why: fmt.Sprintf("About half of it is data, so that %s a connection are at most %s a second to somebody "+
			"who is 100 ms away. %s", size(most), size(most/2*roundTrips), why),
	}
	switch {
	case most < leastBuffer:
		f.State = Warn
		f.Advice = fmt.Sprintf("let the kernel use %s or more", size(leastBuffer))
	case usual > leastBuffer:
		f.State = Warn
		f.Advice = "let connections begin small: the kernel lets those grow that need it"
	default:
		return f
	}
	f.Command = fmt.Sprintf("sysctl -w %s=%q", name, advised)
	return f
}

func sendBuffer(h *Host, p Plan) Finding {
	why := fmt.Sprintf("Viewers of streams are bounded by --unsent (%s).", size(p.Unsent))
	if n, err := h.numbers("net.ipv4.tcp_wmem", 3); err == nil && p.files() {
		why += fmt.Sprintf(" A slow download can pin its third number: with %d of them %s, of pages that are "+
			"files' in the cache.", p.Viewers, size(min(int64(p.Viewers)*min(n[2], 1<<32), mostNumber)))
	}
	return tcpBuffer(h, "net.ipv4.tcp_wmem", "4096 16384 4194304", why)
}

func receiveBuffer(h *Host, _ Plan) Finding {
	return tcpBuffer(h, "net.ipv4.tcp_rmem", "4096 131072 6291456",
		"It is for publishers and uploads: viewers send next to nothing.")
}

func tcpMemory(h *Host, p Plan) Finding {
	n, err := h.numbers("net.ipv4.tcp_mem", 3)
	if err != nil {
		return unknown(err)
	}
	pressure, most := n[1], n[2]
	bytes := func(pages int64) int64 { return min(pages, mostNumber/h.PageSize) * h.PageSize }
	need := p.socketBytes()
	f := Finding{
		State: OK, Value: fmt.Sprintf("%s, pressure from %s", size(bytes(most)), size(bytes(pressure))),
		Why: fmt.Sprintf("What all connections of the machine may hold in the kernel. %d slow viewers hold up to "+
			"%s and what is on its way. From the pressure on the kernel makes every connection's buffers small; at "+
			"the limit connections stand still or break off.", p.Viewers, size(need)),
	}
	switch {
	case need > bytes(most):
		f.State = Bad
	case need > bytes(pressure):
		f.State = Warn
	default:
		return f
	}
	pages := roundUp(2 * need / h.PageSize)
	f.Advice = fmt.Sprintf("allow %s, or expect fewer viewers", size(bytes(pages)))
	f.Command = fmt.Sprintf(`sysctl -w net.ipv4.tcp_mem="%d %d %d"`, pages/2, pages*3/4, pages)
	return f
}

// socketBuffers judges what bounds the send buffers that the server widens for long files. Streams have nothing to do
// with that, and who serves small files, or near by, gains nothing: it is no reason for more than an advice.
func socketBuffers(h *Host, p Plan) Finding {
	send, err := h.number("net.core.wmem_max")
	if err != nil {
		return unknown(err)
	}
	receive, err := h.number("net.core.rmem_max")
	if err != nil {
		return unknown(err)
	}
	tcp, err := h.numbers("net.ipv4.tcp_wmem", 3)
	if err != nil {
		return unknown(err)
	}
	tuned := tcp[2]
	// The kernel doubles what it is asked for.
	widest, wanted := 2*min(p.SendBuffer, send), 2*p.SendBuffer
	f := Finding{
		State: OK, Value: fmt.Sprintf("%d, rmem_max %d", send, receive),
		Why: fmt.Sprintf("While much of a file is left, the server gives a fast connection a send buffer of %s "+
			"(--files-send-buffer, from Linux 5.14 on), but of no more than twice this. By itself the kernel stops at "+
			"%s (tcp_wmem). No more is under way at a time than the buffer holds, so that over a long fast line "+
			"twice the buffer is up to twice the speed. Streams do not need it, and rmem_max makes no difference.",
			size(wanted), size(tuned)),
	}
	switch {
	case tuned >= wanted || widest >= wanted:
		return f
	case widest <= tuned:
		f.Why = fmt.Sprintf("Twice this is no more than %s, so that nothing is widened. ", size(tuned)) + f.Why
	}
	f.State = Info
	f.Advice = fmt.Sprintf("allow %s if large files go far over fast lines, and restart the server", size(p.SendBuffer))
	f.Command = fmt.Sprintf("sysctl -w net.core.wmem_max=%d", p.SendBuffer)
	return f
}

func congestion(h *Host, _ Plan) Finding {
	const name = "net.ipv4.tcp_congestion_control"
	chosen, err := h.sysctl(name)
	if err == nil {
		err = word(name, chosen)
	}
	if err != nil {
		return unknown(err)
	}
	all, _ := h.sysctl("net.ipv4.tcp_available_congestion_control")
	queue, _ := h.sysctl("net.core.default_qdisc")
	f := Finding{
		State: OK, Value: chosen,
		Why: "BBR keeps its rate where packets are lost by chance, as on mobile networks and over long distances; " +
			"cubic takes each loss for a full link. Within a data centre it matters little.",
	}
	if queue != "" {
		f.Value += ", queue " + queue
	}
	const bbr = "sysctl -w " + name + "=bbr"
	switch {
	case chosen == "bbr":
		return f
	case chosen == "cubic":
		f.State = Info
		f.Advice = "choose bbr if viewers come over mobile networks or from other continents"
	default:
		f.State = Warn
		f.Advice = "choose bbr or cubic, with which the networks of today are known to work"
	}
	f.Command = bbr
	if !slices.Contains(strings.Fields(all), "bbr") {
		f.Command = "modprobe tcp_bbr && " + bbr
	}
	return f
}

func slowStart(h *Host, _ Plan) Finding {
	n, err := h.number("net.ipv4.tcp_slow_start_after_idle")
	if err != nil {
		return unknown(err)
	}
	f := Finding{
		State: OK, Value: count(n),
		Why: "With 1 a connection that was idle for a fraction of a second begins again with ten packets a round " +
			"trip. A stream's pictures come too often for that; the next file on a connection that was kept open " +
			"does not.",
	}
	if n != 0 {
		f.State = Info
		f.Advice = "choose 0 if clients get many files one after the other over long distances"
		f.Command = "sysctl -w net.ipv4.tcp_slow_start_after_idle=0"
	}
	return f
}

func notSent(h *Host, p Plan) Finding {
	n, err := h.number("net.ipv4.tcp_notsent_lowat")
	if err != nil {
		return unknown(err)
	}
	f := Finding{State: Info, Value: count(n)}
	if n >= 1<<32-1 {
		f.Value = "unlimited"
	}
	if p.Unsent > 0 {
		f.Why = fmt.Sprintf("The server sets it for each viewer (--unsent, %s), so that lag is seen when it "+
			"begins. Downloads have the system's value, and need no other.", size(p.Unsent))
		return f
	}
	f.Why = "With --unsent 0 the system's value holds for viewers: without one the kernel swallows megabytes " +
		"before a stall is seen."
	return f
}

package doctor

import (
	"fmt"
	"slices"
	"strings"
)

func kernelVersion(h *Host, _ Plan) Finding {
	release, major, minor, err := h.kernel()
	if err != nil {
		return unknown(err)
	}
	f := Finding{
		State: OK, Value: release,
		Why: "From 6.5 on the server asks what of a file is in memory (cachestat), so that downloads that need no " +
			"disk do not wait behind those that do. Before, it tries three bytes of each step.",
	}
	if major < 6 || major == 6 && minor < 5 {
		f.State = Info
		f.Advice = "use a newer kernel when you have the choice"
	}
	return f
}

func sendfile(h *Host, p Plan) Finding {
	f := Finding{
		State: OK, Value: "yes",
		Why: "Files go from the page cache to connections within the kernel. Programs in between that encrypt or " +
			"compress have it copy them after all.",
	}
	if h.OS == "linux" {
		return f
	}
	f.State, f.Value = Info, "no"
	f.Why = fmt.Sprintf("On %s the server copies files through its memory.", h.OS)
	if p.files() {
		f.State, f.Advice = Warn, "serve files from Linux"
	}
	return f
}

const clockDir = "sys/devices/system/clocksource/clocksource0/"

// fastClocks can be read without a system call.
var fastClocks = []string{"tsc", "kvm-clock", "hyperv_clocksource_tsc_page", "arch_sys_counter", "timebase", "tod"}

func clockSource(h *Host, _ Plan) Finding {
	now, err := h.read(clockDir + "current_clocksource")
	if err == nil {
		err = word("the clock source", now)
	}
	if err != nil {
		return unknown(err)
	}
	f := Finding{
		State: OK, Value: now,
		Why: "The server looks at the clock whenever it sends, which takes some 20 ns if no system call is needed.",
	}
	if slices.Contains(fastClocks, now) || strings.HasPrefix(now, "riscv") {
		return f
	}
	f.State = Warn
	f.Advice = "let the kernel use a clock that needs no system call"
	f.Why = "The server looks at the clock whenever it sends. This one takes a system call, and often a " +
		"microsecond or more."
	all, _ := h.read(clockDir + "available_clocksource")
	for _, name := range strings.Fields(all) {
		if slices.Contains(fastClocks, name) {
			f.Command = fmt.Sprintf("echo %s > /%scurrent_clocksource", name, clockDir)
			break
		}
	}
	return f
}

package doctor

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
)

// The file systems that are told from others.
var (
	networkKinds = []string{
		"nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "ceph", "afs", "glusterfs", "lustre", "gpfs", "ocfs2", "virtiofs",
	}
	memoryKinds = []string{"tmpfs", "ramfs"}
	layerKinds  = []string{"overlay", "aufs"}
)

// place judges what the directory of a flag is on, as far as the rules are the same for every flag. It returns false if
// there is no more to say.
func (h *Host) place(flag, name string, write bool) (m mount, f Finding, more bool) {
	if name == "" {
		return m, Finding{State: OK, Value: "none", Why: "No --" + flag + " was given: nothing to look at."}, false
	}
	path, err := h.Directory(name, write)
	if err != nil {
		return m, unusable(name, write, err), false
	}
	m, found, err := h.mountOf(path)
	if err != nil {
		return m, unknown(err), false
	}
	if !found {
		return m, unknown(fmt.Errorf("no file system is known to have %s", path)), false
	}
	f = Finding{State: OK, Value: fmt.Sprintf("%s: %s on %s", name, m.kind, m.at)}
	if slices.Contains(networkKinds, m.kind) || strings.HasPrefix(m.kind, "fuse") {
		f.State = Warn
		f.Advice = "choose a disk of this machine that the kernel itself reads"
		f.Why = "Every read and every look whether a file has changed may wait for another machine or process, " +
			"with a thread for as long as it takes."
		return m, f, false
	}
	return m, f, true
}

// unusable is what is to be done about a directory that the server would not start with.
func unusable(name string, write bool, err error) Finding {
	f := Finding{State: Bad, Why: "The server does not start without it."}
	switch {
	case errors.Is(err, errNotDirectory):
		f.Value = name + ": not a directory"
		f.Advice = "name a directory"
	case errors.Is(err, fs.ErrPermission):
		f.Value = name + ": closed to this user"
		f.Advice, f.Command = "let this user read it", "setfacl -m u:USER:rx "+quote(name)
		if write {
			f.Advice, f.Command = "let this user write in it", "setfacl -m u:USER:rwx "+quote(name)
		}
	default:
		f.Value = name + ": not there"
		f.Advice, f.Command = "create the directory, or let this user see it", "mkdir -p "+quote(name)
	}
	return f
}

func rootDirectory(h *Host, p Plan) Finding {
	m, f, more := h.place("root", p.Root, false)
	if !more {
		return f
	}
	f.Why = "Files leave by sendfile from the page cache."
	switch {
	case slices.Contains(memoryKinds, m.kind):
		f.State = Info
		f.Advice = "count the files as memory"
		f.Why = "The files are in memory, or in swap, and gone when the machine starts again."
	case !m.has("noatime") && !m.has("relatime") && !m.has("ro"):
		f.State = Warn
		f.Advice = "mount it with relatime or noatime"
		f.Why = "Every download writes the time of access of its file to the disk."
		f.Command = "mount -o remount,relatime " + quote(m.at)
	}
	return f
}

func blobsDirectory(h *Host, p Plan) Finding {
	m, f, more := h.place("blobs", p.Blobs, true)
	if !more {
		return f
	}
	f.Why = "A blob is written to a new file, which is on the disk before it gets its name."
	switch {
	case m.has("ro"):
		f.State = Bad
		f.Advice = "mount it for writing, or choose another directory"
		f.Why = "The server does not start where it cannot write."
		f.Command = "mount -o remount,rw " + quote(m.at)
	case slices.Contains(memoryKinds, m.kind):
		f.State = Warn
		f.Advice = "choose a directory on a disk"
		f.Why = "Blobs take memory there, and are gone when the machine starts again."
	case slices.Contains(layerKinds, m.kind):
		f.State = Warn
		f.Advice = "give the container a volume for it"
		f.Why = "The directory is in a layer of the container's: blobs are gone with the container."
		f.Command = "docker run --volume blobs:DIR ..."
	}
	return f
}

const (
	// mostDirtyBackground is what a disk of 250 MB/s writes in a second.
	mostDirtyBackground = 256 << 20
	// mostDirty is what it writes in four. With as much nobody writes faster than the disk.
	mostDirty = 1 << 30
)

// dirtyLimit returns one of the kernel's two limits on what is written and not yet on the disk, and how it is set.
func (h *Host) dirtyLimit(prefix string, available int64) (bytes int64, value string, err error) {
	// What is set in bytes has the ratio be 0, and the other way round.
	if bytes, err = h.number(prefix + "bytes"); err == nil && bytes > 0 {
		return bytes, size(bytes), nil
	}
	percent, err := h.number(prefix + "ratio")
	if err != nil {
		return 0, "", err
	}
	percent = min(percent, 100)
	bytes = available / 100 * percent
	return bytes, fmt.Sprintf("%d%% (%s)", percent, size(bytes)), nil
}

func dirtyBackground(h *Host, p Plan) Finding {
	return dirty(h, p, "background_", mostDirtyBackground,
		"The kernel begins to write to the disk when as much was written by programs, or 30 s after (unless set). "+
			"An upload is answered when it is on the disk: what was not begun in time it waits for in the end.")
}

func dirtyAll(h *Host, p Plan) Finding {
	return dirty(h, p, "", mostDirty,
		"Half way between the two limits the kernel begins to slow down whoever writes, in many short waits. A low "+
			"limit makes no program write faster. It bounds what one that asks for its bytes to be on the disk may "+
			"have to wait for: the ratio is of the memory that is available, and grows with the machine.")
}

// dirty judges one of the two limits, of which sensible bytes are enough.
func dirty(h *Host, p Plan, which string, sensible int64, why string) Finding {
	_, available, err := h.memory()
	if err != nil {
		return unknown(err)
	}
	bytes, value, err := h.dirtyLimit("vm.dirty_"+which, available)
	if err != nil {
		return unknown(err)
	}
	f := Finding{State: OK, Value: value, Why: why}
	if p.Blobs == "" {
		f.Why += " Without --blobs the server writes nothing."
		return f
	}
	// Twice as much is no reason to change anything.
	if bytes > 2*sensible {
		f.State = Warn
		f.Advice = fmt.Sprintf("set it in bytes: %s", size(sensible))
		f.Command = fmt.Sprintf("sysctl -w vm.dirty_%sbytes=%d", which, sensible)
	}
	return f
}

func asyncIO(h *Host, _ Plan) Finding {
	most, err := h.number("fs.aio-max-nr")
	if err != nil {
		return unknown(err)
	}
	f := Finding{
		State: Info, Value: count(most),
		Why: "Millrace uses no asynchronous I/O of the kernel's (io_submit): files leave by sendfile. For databases " +
			"and nginx with aio on the same machine it bounds what they set up together, used or not. Beyond it they " +
			"are refused (EAGAIN); below it a higher limit makes nothing faster.",
	}
	if used, err := h.number("fs.aio-nr"); err == nil {
		f.Value += fmt.Sprintf(" (in use: %s)", count(used))
	}
	return f
}

package observe

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/pprof"
)

// Profiles are a CPU profile that runs and a heap profile that is written when it ends. The zero value has none.
type profiles struct {
	directory string
	cpu       *os.File
}

// startProfiles begins the CPU profile; a directory of "" has none. A process has one CPU profile at a time.
func startProfiles(directory string) (profiles, error) {
	if directory == "" {
		return profiles{}, nil
	}
	if err := os.MkdirAll(directory, 0o755); err != nil {
		return profiles{}, err
	}
	f, err := os.Create(filepath.Join(directory, "cpu.pprof"))
	if err != nil {
		return profiles{}, err
	}
	if err := pprof.StartCPUProfile(f); err != nil {
		return profiles{}, errors.Join(err, f.Close(), os.Remove(f.Name()))
	}
	return profiles{directory: directory, cpu: f}, nil
}

// stop returns the files that are written whole.
func (p profiles) stop() (files []string, err error) {
	if p.cpu == nil {
		return nil, nil
	}
	pprof.StopCPUProfile()
	if err = p.cpu.Close(); err == nil {
		files = append(files, p.cpu.Name())
	}
	name := filepath.Join(p.directory, "heap.pprof")
	if err2 := writeHeap(name); err2 != nil {
		return files, errors.Join(err, err2)
	}
	return append(files, name), err
}

func writeHeap(name string) error {
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	runtime.GC() // the profile is of the last collection, which may be from before the load
	if err := pprof.Lookup("heap").WriteTo(f, 0); err != nil {
		return errors.Join(fmt.Errorf("heap profile: %w", err), f.Close())
	}
	return f.Close()
}

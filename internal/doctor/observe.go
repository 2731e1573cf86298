package doctor

import (
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
)

// Observe returns the Host that this process is on. Except for limits, nothing of it is read before a check asks for
// it.
func Observe() *Host {
	return &Host{
		Files:       os.DirFS("/"),
		OS:          runtime.GOOS,
		CPUs:        runtime.NumCPU(),
		Procs:       runtime.GOMAXPROCS(0),
		PageSize:    int64(os.Getpagesize()),
		MemoryLimit: debug.SetMemoryLimit(-1), // which changes nothing
		OpenFiles:   openFilesLimit(),
		Values:      systemValues(),
		Env:         os.Getenv,
		Directory:   directory,
	}
}

func directory(name string, write bool) (string, error) {
	path, err := filepath.Abs(name)
	if err != nil {
		return "", err
	}
	if path, err = filepath.EvalSymlinks(path); err != nil {
		return "", err
	}
	info, err := os.Stat(path)
	if err != nil {
		return "", err
	}
	if !info.IsDir() {
		return "", errNotDirectory
	}
	if !accessible(path, write) {
		return "", fs.ErrPermission
	}
	return path, nil
}

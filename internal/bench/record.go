package bench

import (
	"errors"
	"path/filepath"

	"github.com/millrace-io/millrace/internal/observe"
)

// recordServer records a load on a server in a process of its own: the load in this process, the runtime and the kernel in
// that one. r says what it is.
func (s *session) recordServer(p *process, r Recording, load func() observe.Load, do func() error) error {
	o := recordOrder{Interval: s.effort.Interval}
	if s.cfg.Profiles != "" {
		dir, err := filepath.Abs(filepath.Join(s.cfg.Profiles, s.suite+"-"+r.Key))
		if err != nil {
			return err
		}
		o.Profiles = dir
	}
	if err := p.record(o); err != nil {
		return err
	}
	// The kernel's layer of this process would tell of the clients.
	here, err := observe.Start(observe.Options{Interval: s.effort.Interval, Load: load, Kernel: observe.KernelNone})
	if err != nil {
		_, stopErr := p.endRecord()
		return errors.Join(err, stopErr)
	}
	err = do()
	var hereErr, thereErr error
	r.Load, hereErr = here.Stop()
	r.Server, thereErr = p.endRecord()
	if err := errors.Join(err, hereErr, thereErr); err != nil {
		return err
	}
	s.report.Recordings = append(s.report.Recordings, r)
	return nil
}

// recordHere records a load that this process works on itself: all layers are its own.
func (s *session) recordHere(r Recording, load func() observe.Load, do func() error) error {
	o := observe.Options{Interval: s.effort.Interval, Load: load}
	if s.cfg.Profiles != "" {
		o.Profiles = filepath.Join(s.cfg.Profiles, s.suite+"-"+r.Key)
	}
	here, err := observe.Start(o)
	if err != nil {
		return err
	}
	err = do()
	var stopErr error
	r.Load, stopErr = here.Stop()
	if err := errors.Join(err, stopErr); err != nil {
		return err
	}
	s.report.Recordings = append(s.report.Recordings, r)
	return nil
}

package need_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/millrace-io/millrace/internal/testkit/need"
)

func TestProgramIsFoundByItsSecondName(t *testing.T) {
	if path := need.Program(t, "no-such-program", "sh"); path == "" {
		t.Error("sh was not found")
	}
}

// NginxModule tries what nginx accepts. It does not read nginx's build arguments.
func TestNginxModule(t *testing.T) {
	const load = "load_module /usr/share/nginx/modules/ngx_stream_module.so;"
	for name, test := range map[string]struct {
		nginx string // the script that replaces it
		want  string
		skips bool
	}{
		"part of nginx": {"exit 0", "", false},
		"a module":      {`grep -q "^` + load + `.* stream {}" "$5"`, load, false},
		"none": {`echo "configured --with-stream --with-stream=dynamic" >&2; exit 1`, "",
			true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("CI", "")
			t.Setenv("MILLRACE_NEEDS", "")
			nginx := filepath.Join(t.TempDir(), "nginx")
			if err := os.WriteFile(nginx, []byte("#!/bin/sh\n"+test.nginx+"\n"),
				0o700); err != nil {
				t.Fatal(err)
			}
			r := &recorder{TB: t}
			if got := need.NginxModule(r, nginx, "stream"); got != test.want ||
				r.skipped != test.skips {
				t.Errorf("%q, skipped %t, want %q, %t", got, r.skipped, test.want, test.skips)
			}
		})
	}
}

// recorder records the end of a test instead of ending it.
type recorder struct {
	testing.TB
	failed, skipped bool
}

func (r *recorder) Helper()      {}
func (r *recorder) Fatal(...any) { r.failed = true }
func (r *recorder) Skip(...any)  { r.skipped = true }

func TestAMissingProgramFailsOnlyOnCI(t *testing.T) {
	list := filepath.Join(t.TempDir(), "list")
	if err := os.WriteFile(list, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("MILLRACE_NEEDS", list)
	for _, ci := range []string{"true", ""} {
		t.Setenv("CI", ci)
		r := &recorder{TB: t}
		need.Program(r, "no-such-program")
		if onCI := ci == "true"; r.failed != onCI || r.skipped == onCI {
			t.Errorf("CI=%q: failed %t, skipped %t", ci, r.failed, r.skipped)
		}
	}
	const want = "TestAMissingProgramFailsOnlyOnCI: needs no-such-program: apt-get install no-such-program\n"
	if got, err := os.ReadFile(list); err != nil || string(got) != want {
		t.Errorf("the list is %q, %v", got, err)
	}
}

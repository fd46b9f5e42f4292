package podconfig

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestConfigValidate(t *testing.T) {
	t.Parallel()
	file := newTestSource(FileSource)
	for _, c := range []struct {
		name string
		cfg  Config
		want string
	}{
		{"no source", Config{}, "Sources is empty"},
		{"nil", Config{Sources: []Producer{file, nil}}, "Sources[1] is nil"},
		{"no name", Config{Sources: []Producer{newTestSource("")}}, "Sources[0] has no name"},
		{"twice", Config{Sources: []Producer{file, newTestSource(FileSource)}}, `Sources[1]: a second source "file"`},
		{"behaviour", Config{Sources: []Producer{file}, Behaviour: "best"}, `Behaviour is "best"`},
		{"right", Config{Sources: []Producer{file}}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := New(c.cfg)
			if c.want == "" && err == nil {
				return
			}
			if c.want == "" || err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("New: %v, want %q", err, c.want)
			}
		})
	}
}

// TestRunTwice: a second Run is an error, and does not disturb the first.
func TestRunTwice(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		file := newTestSource(FileSource)
		r := run(t, Config{Sources: []Producer{file}})
		synctest.Wait()
		if err := r.Run(t.Context()); !errors.Is(err, ErrAlreadyRun) {
			t.Errorf("the second Run: %v", err)
		}
		file.changes <- first(testPod("a", "1"))
		r.want("ADD file initial a@1")
	})
}

// failing is a source that fails for good after a while.
type failing struct{ *testSource }

func (f failing) Run(ctx context.Context, _ func(Change)) error {
	time.Sleep(time.Second)
	return errors.New("the directory is a socket")
}

// TestSourceFails: a source that fails for good ends everything; the error names it.
func TestSourceFails(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		pc, err := New(Config{Sources: []Producer{newTestSource(APIServerSource), failing{newTestSource(FileSource)}}})
		if err != nil {
			t.Fatal(err)
		}
		err = pc.Run(t.Context())
		if err == nil || err.Error() != "pod source file: the directory is a socket" {
			t.Errorf("Run: %v", err)
		}
		if _, open := <-pc.Updates(); open {
			t.Error("Updates is open after Run")
		}
	})
}

// TestStop: stopping the context ends every goroutine within 100 ms, also when
// the consumer reads nothing; Updates is closed.
func TestStop(t *testing.T) {
	t.Parallel()
	for _, b := range []Behaviour{Improved, KubeletCompatible} {
		t.Run(string(b), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				api := newTestSource(APIServerSource)
				r := run(t, Config{Sources: []Producer{api, newTestSource(FileSource)}, Behaviour: b})
				api.changes <- first(testPod("a", "1"))
				if b == KubeletCompatible {
					go func() { // fills the channel, then is held up in tell
						for i := range 2 * kubeletBuffer {
							select {
							case api.changes <- changed(testPod("a", "1", image(string(rune('a'+i))))):
							case <-t.Context().Done():
								return
							}
						}
					}()
				}
				synctest.Wait()
				r.stop() // checks the time
				n := 0
				for range r.Updates() {
					n++
				}
				if want := map[Behaviour]int{Improved: 0, KubeletCompatible: kubeletBuffer}[b]; n != want {
					t.Errorf("%d updates left in the channel, want %d", n, want)
				}
			})
		})
	}
}

// TestI3: a source that was registered and never configured is none; "all
// sources seen" is about the configured ones, and each sends at least one update,
// empty or not.
func TestI3(t *testing.T) {
	t.Parallel()
	t.Run("files only", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			file := newTestSource(FileSource)
			r := run(t, Config{Sources: []Producer{file}})
			if r.SeenAllSources() {
				t.Error("seen before the source told anything")
			}
			file.changes <- first()
			r.want("ADD file initial")
			if !r.SeenAllSources() {
				t.Error("not seen although the only source was")
			}
			file.changes <- set() // said once
			r.want()
		})
	})
	t.Run("two", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			file, api := newTestSource(FileSource), newTestSource(APIServerSource)
			r := run(t, Config{Sources: []Producer{file, api}})
			api.changes <- first(testPod("a", "1"))
			r.want("ADD api initial a@1")
			if r.SeenAllSources() {
				t.Error("seen although the files were not")
			}
			// Told is not enough: the consumer must know the pods.
			file.changes <- first(testPod("s", "2"))
			synctest.Wait()
			if r.SeenAllSources() {
				t.Error("seen although the consumer did not receive it")
			}
			r.want("ADD file initial s@2")
			if st := r.Status(); !r.SeenAllSources() || !st.Ready || !st.Sources[0].Told || !st.Sources[1].Told {
				t.Errorf("not seen: %+v", st)
			}
		})
	})
	t.Run("a delta is not the full state", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			api := newTestSource(APIServerSource)
			r := run(t, Config{Sources: []Producer{api}})
			p := testPod("a", "1")
			api.changes <- changed(p)
			r.want("ADD api a@1")
			if r.SeenAllSources() {
				t.Error("seen after a delta")
			}
			api.changes <- first(p, testPod("b", "2"))
			r.want("ADD api initial b@2")
			if !r.SeenAllSources() {
				t.Error("not seen")
			}
		})
	})
}

// TestI4: the API source hangs; pods of files are added, changed and removed without waiting.
func TestI4(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		file, api := newTestSource(FileSource), newTestSource(APIServerSource)
		r := run(t, Config{Sources: []Producer{api, file}})
		p := testPod("s", "1")
		file.changes <- first(p)
		r.want("ADD file initial s@1")
		file.changes <- set(edited(p, annotated("a", "b")))
		r.want("UPDATE file s@1")
		file.changes <- set()
		r.want("REMOVE file s@1")
		if r.SeenAllSources() {
			t.Error("the API server was not seen")
		}
	})
}

// TestI6: the first list with Running, Succeeded, Failed and terminating pods is
// delivered as it is, marked initial.
func TestI6(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		api := newTestSource(APIServerSource)
		r := run(t, Config{Sources: []Producer{api}})
		ch := first(testPod("running", "1", phase("Running")), testPod("done", "2", phase("Succeeded")),
			testPod("failed", "3", phase("Failed")), testPod("ending", "4", terminating))
		api.changes <- ch
		synctest.Wait()
		u := <-r.Updates()
		if got := line(u); got != "ADD api initial running@1 done@2 failed@3 ending@4" {
			t.Error(got)
		}
		for i, p := range u.Pods {
			if p != ch.Pods[i] {
				t.Errorf("%s is a copy", p.Name)
			}
		}
		api.changes <- changed(testPod("e", "5"))
		r.want("ADD api e@5")
	})
}

package controllertest

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"

	"github.com/nodewatch-go/nodewatch/listwatch"
	"github.com/nodewatch-go/nodewatch/listwatch/listwatchtest"
	"github.com/nodewatch-go/nodewatch/reflector"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestCount plays each script. The last line of one says what has to be counted in the end.
func TestCount(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scripts: %v", err)
	}
	for _, file := range files {
		script, err := listwatchtest.LoadScript(file)
		if err != nil {
			t.Fatal(err)
		}
		t.Run(file, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { playScript(t, script) })
		})
	}
}

func playScript(t *testing.T, script *listwatchtest.Script) {
	srv := listwatchtest.New(listwatchtest.Config{})
	defer srv.Close()
	play := srv.Play(script)

	lw, err := listwatch.New[*corev1.Pod](listwatch.Config{REST: srv.RESTConfig(), Resource: corev1.SchemeGroupVersion.WithResource("pods")})
	if err != nil {
		t.Fatal(err)
	}
	pods, err := reflector.New(reflector.Config[*corev1.Pod]{ListerWatcher: lw, OnStop: lw.Close})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Hour) // virtual
	defer cancel()
	counts := make(map[string]int)
	ended := make(chan error, 2)
	go func() { ended <- pods.Run(ctx) }()
	go func() {
		err := Count(ctx, pods, func(namespace string, running int) { counts[namespace] = running })
		if errors.Is(err, context.Canceled) {
			err = nil
		}
		ended <- err
	}()

	if err := play.Wait(ctx); err != nil {
		t.Fatalf("%v\n%s", err, play.Transcript())
	}
	synctest.Wait() // until what was sent is counted
	for _, want := range script.Wants {
		if got := fmt.Sprint(counts[want.Word]); got != want.Text {
			t.Errorf("%s: %s pods run in %s, not %s\n%s", want.Pos, got, want.Word, want.Text, play.Transcript())
		}
	}
	cancel()
	for range cap(ended) {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}

package health

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/nodewatch-go/nodewatch/reflector"
)

// DefaultMaxAge is a minute more than the longest silence of a healthy watch with the
// default idle timeout.
const DefaultMaxAge = reflector.DefaultIdleTimeout + time.Minute

// toldAtMost bounds how many reflectors one answer names.
const toldAtMost = 20

// Config says what readiness turns on. Only Registry must be set.
type Config struct {
	// Registry has the reflectors, as a *reflector.Registry does. All that are
	// in it have to be ready.
	Registry interface{ Sources() []reflector.Source }
	// Expected are the names of reflectors that have to run besides: a registry
	// has only those that have started.
	Expected []string
	// AtLeast is how many have to run, whatever their names.
	AtLeast int
	// MaxAge is how old the knowledge of a ready process may be. Default: DefaultMaxAge.
	MaxAge time.Duration
	// Also is asked when the reflectors are ready; an error of it is another
	// reason for the process not to be ready. nil is none.
	Also func() error
}

// Readiness answers whether the reflectors are ready. It has no state but where to
// look; its methods are safe from any goroutine.
type Readiness struct{ cfg Config }

// New returns a Readiness. An error tells every fault of c at once.
func New(c Config) (*Readiness, error) {
	var errs []error
	if c.Registry == nil {
		errs = append(errs, errors.New("health: Config.Registry is nil: pass the *reflector.Registry of the reflectors' Config.Registry"))
	}
	if c.AtLeast < 0 {
		errs = append(errs, fmt.Errorf("health: Config.AtLeast is %d: use a number of reflectors, or 0", c.AtLeast))
	}
	if c.MaxAge < 0 {
		errs = append(errs, fmt.Errorf("health: Config.MaxAge is %v: use a positive age, or 0 for %v", c.MaxAge, DefaultMaxAge))
	}
	if c.MaxAge == 0 {
		c.MaxAge = DefaultMaxAge
	}
	c.Expected = slices.Clone(c.Expected)
	return &Readiness{c}, errors.Join(errs...)
}

// Check returns nil when the process is ready, else an error that says which
// reflector is not, and why. It has the form of controller-runtime's
// healthz.Checker; of the request, which may be nil, it takes max-age (see ServeHTTP).
//
// Promises, with their tests:
//   - Readiness turns on freshness: it is lost when the server cannot be reached for longer than the limit,
//     and comes back with the first event or bookmark. Test: TestReadinessFollowsTheServer.
func (h *Readiness) Check(r *http.Request) error {
	maxAge, err := h.maxAge(r)
	if err != nil {
		return err
	}
	return h.check(maxAge)
}

// ServeHTTP answers 200 and "ok" when the process is ready, else 503 and what Check
// says. The query max-age=DURATION asks for another limit than Config.MaxAge,
// as in /readyz?max-age=30s; what is no positive duration is answered with 400.
func (h *Readiness) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	maxAge, err := h.maxAge(r)
	if err != nil {
		plain(w, http.StatusBadRequest, err.Error())
		return
	}
	if err := h.check(maxAge); err != nil {
		plain(w, http.StatusServiceUnavailable, err.Error())
		return
	}
	plain(w, http.StatusOK, "ok")
}

// Live answers 200 and "ok", always: see the package comment for why.
func Live() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { plain(w, http.StatusOK, "ok") })
}

// NotReady says why one reflector cannot be relied on at now; "" when it can.
func NotReady(s reflector.Status, maxAge time.Duration, now time.Time) string {
	switch age := now.Sub(s.FreshAsOf); {
	case s.State == reflector.StateStopped:
		return s.Name + ": has stopped"
	case !s.Synced:
		return fmt.Sprintf("%s: no complete snapshot yet (%s)%s", s.Name, s.State, because(s))
	case age > maxAge:
		return fmt.Sprintf("%s: known current only up to %s ago, the limit is %s (%s)%s",
			s.Name, age.Round(time.Second), maxAge, s.State, because(s))
	}
	return ""
}

func because(s reflector.Status) string {
	if s.LastRestart == nil || s.LastRestart.Err == nil {
		return ""
	}
	return ": " + s.LastRestart.Err.Error()
}

func (h *Readiness) maxAge(r *http.Request) (time.Duration, error) {
	if r == nil || r.URL == nil {
		return h.cfg.MaxAge, nil
	}
	asked := r.URL.Query().Get("max-age")
	if asked == "" {
		return h.cfg.MaxAge, nil
	}
	d, err := time.ParseDuration(asked)
	if err != nil || d <= 0 {
		return 0, errors.New("max-age must be a positive duration, as in 30s")
	}
	return d, nil
}

func (h *Readiness) check(maxAge time.Duration) error {
	var faults []string
	sources := h.cfg.Registry.Sources()
	if len(sources) < h.cfg.AtLeast {
		faults = append(faults, fmt.Sprintf("%d of %d reflectors run", len(sources), h.cfg.AtLeast))
	}
	missing := slices.Clone(h.cfg.Expected)
	now := time.Now()
	for _, source := range sources {
		s := source.Status()
		if why := NotReady(s, maxAge, now); why != "" {
			faults = append(faults, why)
		}
		missing = slices.DeleteFunc(missing, func(name string) bool { return name == s.Name })
	}
	for _, name := range missing {
		faults = append(faults, name+": does not run")
	}
	if len(faults) == 0 && h.cfg.Also != nil {
		return h.cfg.Also()
	}
	if more := len(faults) - toldAtMost; more > 0 {
		faults = append(faults[:toldAtMost], fmt.Sprintf("and %d more", more))
	}
	if len(faults) == 0 {
		return nil
	}
	return errors.New(strings.Join(faults, "\n"))
}

// plain answers with a text. Errors in it come from servers: it is not to be read as anything else.
func plain(w http.ResponseWriter, code int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(code)
	_, _ = fmt.Fprintln(w, text) // the reader went away
}

var _ http.Handler = (*Readiness)(nil)

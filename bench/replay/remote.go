package replay

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
)

// Control returns the handler that a Remote speaks to.
func (s *Server) Control() http.Handler {
	mux := http.NewServeMux()
	handle := func(name string, do func(ctx context.Context, n, rate int) (any, error)) {
		mux.HandleFunc("POST /"+name, func(w http.ResponseWriter, r *http.Request) {
			n, _ := strconv.Atoi(r.FormValue("n")) // Remote is the only caller
			rate, _ := strconv.Atoi(r.FormValue("rate"))
			answer, err := do(r.Context(), n, rate)
			if err != nil {
				http.Error(w, err.Error(), http.StatusConflict)
				return
			}
			_ = json.NewEncoder(w).Encode(answer)
		})
	}
	handle("watches", func(ctx context.Context, n, _ int) (any, error) { return nil, s.Watches(ctx, n) })
	handle("opened", func(ctx context.Context, _, _ int) (any, error) { return s.Opened(ctx) })
	handle("prepare", func(ctx context.Context, n, _ int) (any, error) { return nil, s.Prepare(ctx, n) })
	handle("send", func(ctx context.Context, n, _ int) (any, error) { return s.Send(ctx, n) })
	handle("pace", func(ctx context.Context, n, rate int) (any, error) { return nil, s.Pace(ctx, n, rate) })
	handle("expire", func(ctx context.Context, _, _ int) (any, error) { return nil, s.Expire(ctx) })
	handle("requests", func(ctx context.Context, _, _ int) (any, error) { return s.Requests(ctx) })
	return mux
}

// Remote tells a Server in another process what to do. Its methods are those of Server.
type Remote struct {
	// URL is where the server's Control is.
	URL string
}

// Watches is Server.Watches.
func (r Remote) Watches(ctx context.Context, n int) error {
	return r.post(ctx, "watches", n, 0, new(any))
}

// Opened is Server.Opened.
func (r Remote) Opened(ctx context.Context) (n int, err error) {
	err = r.post(ctx, "opened", 0, 0, &n)
	return n, err
}

// Prepare is Server.Prepare.
func (r Remote) Prepare(ctx context.Context, n int) error {
	return r.post(ctx, "prepare", n, 0, new(any))
}

// Send is Server.Send.
func (r Remote) Send(ctx context.Context, n int) (bytes int64, err error) {
	err = r.post(ctx, "send", n, 0, &bytes)
	return bytes, err
}

// Pace is Server.Pace.
func (r Remote) Pace(ctx context.Context, n, rate int) error {
	return r.post(ctx, "pace", n, rate, new(any))
}

// Expire is Server.Expire.
func (r Remote) Expire(ctx context.Context) error { return r.post(ctx, "expire", 0, 0, new(any)) }

// Requests is Server.Requests.
func (r Remote) Requests(ctx context.Context) (log []string, err error) {
	err = r.post(ctx, "requests", 0, 0, &log)
	return log, err
}

func (r Remote) post(ctx context.Context, name string, n, rate int, answer any) error {
	query := url.Values{"n": {strconv.Itoa(n)}, "rate": {strconv.Itoa(rate)}}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, r.URL+"/"+name+"?"+query.Encode(), nil)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return fmt.Errorf("replay: telling the server to %s: %w", name, err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(resp.Body, 4096))
		return errors.New(string(text))
	}
	return json.NewDecoder(resp.Body).Decode(answer)
}

// Controller is what tells a server what to do: the server itself, or a Remote.
type Controller interface {
	Opened(ctx context.Context) (int, error)
	Watches(ctx context.Context, n int) error
	Prepare(ctx context.Context, n int) error
	Send(ctx context.Context, n int) (int64, error)
	Pace(ctx context.Context, n, rate int) error
	Expire(ctx context.Context) error
	Requests(ctx context.Context) ([]string, error)
}

var (
	_ Controller = (*Server)(nil)
	_ Controller = Remote{}
)

package replay

import (
	"bytes"
	"compress/gzip"
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/nodewatch-go/nodewatch/bench/specimen"
)

// verb is what a watch is told to do.
type verb uint8

const (
	prepare verb = iota
	send
	expire
)

// command is for the watch that is open.
type command struct {
	what    verb
	n, rate int // rate 0 is as fast as can be
	done    chan done
}

// done is how a command ended.
type done struct {
	bytes int64 // of events
	err   error
}

// watch is one open watch.
type watch struct {
	w     http.ResponseWriter
	flush func() error
	conn  *gatheringConn // under w, or nil

	commands chan command
	ended    chan struct{} // closed when nobody takes commands any more

	server *Server
	buf    []byte // of the next event
	bytes  int64  // of the command's events, before compression

	zip      *gzip.Writer // nil without compression
	zipped   bytes.Buffer // what zip wrote
	prepared []prepared   // what of zipped is not sent yet
}

// prepared is the length of an event.
type prepared struct{ zipped, plain int }

func (s *Server) serveWatch(w http.ResponseWriter, r *http.Request, packed bool) {
	contentType := s.cfg.MediaType
	if contentType == specimen.Protobuf {
		contentType += ";stream=watch"
	}
	w.Header().Set("Content-Type", contentType)
	a := &watch{
		w: w, flush: http.NewResponseController(w).Flush, conn: connOf(r.Context()),
		server: s, commands: make(chan command), ended: make(chan struct{}),
	}
	defer close(a.ended)
	if packed {
		w.Header().Set("Content-Encoding", "gzip")
		a.zip, _ = gzip.NewWriterLevel(&a.zipped, gzip.BestSpeed) // the level is a good one
	}
	if a.flush() != nil {
		return
	}
	query := r.URL.Query()
	if query.Get("sendInitialEvents") != "" {
		if a.initial() != nil {
			return
		}
	}
	s.mu.Lock()
	if at, err := strconv.Atoi(query.Get("resourceVersion")); err != nil || at < specimen.FirstUpdate {
		s.stream = s.stream.Again() // a client that comes from a list, or knows nothing
	}
	s.opened++
	s.current = a
	close(s.changed)
	s.changed = make(chan struct{})
	s.mu.Unlock()
	for {
		select {
		case c := <-a.commands:
			a.bytes = 0
			err := a.do(c)
			c.done <- done{a.bytes, err}
			if err != nil || c.what == expire {
				return
			}
		case <-r.Context().Done():
			return
		}
	}
}

func (a *watch) do(c command) error {
	switch c.what {
	case prepare:
		return a.prepare(c.n)
	case expire:
		if err := a.write(a.server.expired); err != nil {
			return err
		}
		return a.sent(a.flush())
	case send:
		if c.rate > 0 {
			return a.pace(c.n, c.rate)
		}
		return a.burst(c.n)
	}
	return nil
}

// burst sends n events as fast as can be.
func (a *watch) burst(n int) error {
	a.conn.gather()
	for range n {
		if err := a.next(); err != nil {
			_ = a.conn.release() // it is of no use any more
			return err
		}
	}
	return a.sent(errors.Join(a.flush(), a.conn.release()))
}

// initial sends the initial events and their end mark.
func (a *watch) initial() error {
	all := a.server.initial.At(a.server.nextVersion())
	var err error
	if a.zip == nil {
		_, err = all.WriteTo(a.w)
	} else if _, err = all.WriteTo(a.zip); err == nil {
		err = a.drain()
	}
	if err != nil {
		return errGone
	}
	return a.sent(a.flush())
}

// pace sends n events, rate a second.
func (a *watch) pace(n, rate int) error {
	start := time.Now()
	for k := 0; k < n; {
		due := min(n, 1+int(time.Since(start).Seconds()*float64(rate)))
		if due == k {
			time.Sleep(time.Until(start.Add(time.Duration(k) * time.Second / time.Duration(rate))))
			continue
		}
		for ; k < due; k++ {
			if err := a.next(); err != nil {
				return err
			}
		}
		if err := a.flush(); err != nil {
			return errGone
		}
	}
	return nil
}

// next writes the next event.
func (a *watch) next() error {
	if len(a.prepared) > 0 {
		_, err := a.w.Write(a.zipped.Next(a.prepared[0].zipped))
		a.bytes += int64(a.prepared[0].plain)
		a.prepared = a.prepared[1:]
		return a.sent(err)
	}
	a.buf = a.server.event(a.buf[:0])
	a.bytes += int64(len(a.buf))
	return a.write(a.buf)
}

func (a *watch) write(event []byte) error {
	if a.zip == nil {
		_, err := a.w.Write(event)
		return a.sent(err)
	}
	if _, err := a.zip.Write(event); err != nil {
		return err
	}
	return a.drain()
}

// drain writes all that was given to zip, so that the client can read it.
func (a *watch) drain() error {
	if err := a.zip.Flush(); err != nil {
		return err
	}
	_, err := a.zipped.WriteTo(a.w)
	return a.sent(err)
}

// prepare compresses the next n events.
func (a *watch) prepare(n int) error {
	if a.zip == nil {
		return nil
	}
	for range n {
		before := a.zipped.Len()
		a.buf = a.server.event(a.buf[:0])
		if _, err := a.zip.Write(a.buf); err != nil {
			return err
		}
		if err := a.zip.Flush(); err != nil {
			return err
		}
		a.prepared = append(a.prepared, prepared{a.zipped.Len() - before, len(a.buf)})
	}
	return nil
}

// sent turns the error of a write into errGone.
func (a *watch) sent(err error) error {
	if err != nil {
		return errGone
	}
	return nil
}

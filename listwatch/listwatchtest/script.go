package listwatchtest

import (
	"fmt"
	"os"
	"time"
)

// Script is one conversation of a client with a server: the requests that have
// to come, in order, and what is sent in answer, down to the bytes. See
// docs/testing.md for the format. A Script is never changed after parsing and
// may be played any number of times.
type Script struct {
	// Name is what it was parsed under, and begins every message about it.
	Name string
	// Settings are the words of the config lines. They mean nothing to the
	// server; a test reads from them how to configure its client.
	Settings []Setting
	// Wants are the lines that begin with a word the server does not know,
	// such as "store a@90": what has to be true when the script is over. The
	// test that plays the script checks them.
	Wants []Want

	resource string // that the script is about
	serve    bool   // what does not match is served as without a script
	defaults objectDefaults
	steps    []*scriptStep
	files    map[string][]byte // of the archive
}

// Setting is one KEY=VALUE of a config line.
type Setting struct {
	Pos        string // FILE:LINE
	Key, Value string
}

// Want is one line that the test has to check.
type Want struct {
	Pos        string // FILE:LINE
	Word, Text string
}

// scriptStep is one request and its answer.
type scriptStep struct {
	pos     string
	request expectation
	// low and high bound the time since the end of the last answer; high 0 is no bound.
	low, high time.Duration
	timed     bool
	actions   []action
}

// served reports whether the server itself answers.
func (st *scriptStep) served() bool {
	return len(st.actions) > 0 && st.actions[len(st.actions)-1].serve
}

// action is one line of an answer.
type action struct {
	pos   string
	text  string // as it was written
	serve bool
	do    func(*exchange) error
}

// LoadScript reads a script from a file. Its errors begin with FILE:LINE.
func LoadScript(file string) (*Script, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("listwatchtest: script: %w", err)
	}
	return ParseScript(file, text)
}

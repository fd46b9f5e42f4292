package listwatchtest

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rogpeppe/go-internal/txtar"
)

// maxTimes bounds times= of one request, maxSteps all requests of a script, and
// so the memory that parsing takes.
const (
	maxTimes = 10_000
	maxSteps = 100_000
)

// ParseScript parses a script. name stands in its messages. All that is wrong
// is reported at once, each with name and line.
func ParseScript(name string, text []byte) (*Script, error) {
	archive := txtar.Parse(text)
	p := &scriptParser{script: &Script{Name: name, resource: "pods", files: make(map[string][]byte)}}
	for _, f := range archive.Files {
		if _, twice := p.script.files[f.Name]; twice {
			p.fail("the file %s is there twice", f.Name)
		}
		p.script.files[f.Name] = f.Data
	}
	for i, line := range strings.Split(string(archive.Comment), "\n") {
		p.line = i + 1
		p.parse(strings.TrimSpace(line))
	}
	for i, st := range p.script.steps {
		if i == 0 || st != p.script.steps[i-1] {
			p.checkStep(st)
		}
	}
	if len(p.errs) > 0 {
		return nil, errors.Join(p.errs...)
	}
	return p.script, nil
}

type scriptParser struct {
	script *Script
	line   int
	// last is the step of the last request line; a line that says times= has
	// it in the script several times.
	last *scriptStep
	errs []error
}

func (p *scriptParser) pos() string { return fmt.Sprintf("%s:%d", p.script.Name, p.line) }

func (p *scriptParser) fail(format string, args ...any) {
	p.errs = append(p.errs, fmt.Errorf("%s: "+format, append([]any{p.pos()}, args...)...))
}

func (p *scriptParser) parse(line string) {
	word, rest, _ := strings.Cut(line, " ")
	rest = strings.TrimSpace(rest)
	switch {
	case word == "" || strings.HasPrefix(word, "#"):
	case word == ">":
		p.parseRequest(rest)
	case word == "<":
		p.parseAnswer(rest)
	case word == "config":
		for _, pair := range strings.Fields(rest) {
			key, value, ok := strings.Cut(pair, "=")
			if !ok {
				p.fail("config %s: write KEY=VALUE", pair)
			}
			p.script.Settings = append(p.script.Settings, Setting{p.pos(), key, value})
		}
	case word == "resource":
		if p.script.resource = rest; rest == "" || strings.ContainsAny(rest, " /") {
			p.fail("resource %s: write the plural name alone, such as pods", rest)
		}
	case word == "else":
		if p.script.serve = rest == "serve"; !p.script.serve {
			p.fail("else %s: there is only else serve", rest)
		}
	case word == "objects":
		if err := p.script.defaults.parse(rest); err != nil {
			p.fail("%v", err)
		}
	default:
		p.script.Wants = append(p.script.Wants, Want{p.pos(), word, rest})
	}
}

func (p *scriptParser) parseRequest(rest string) {
	st := &scriptStep{pos: p.pos()}
	words := strings.Fields(rest)
	p.last = st
	if len(words) == 0 {
		p.fail("a request is LIST, WATCH, WATCHLIST or DIAL")
		return
	}
	st.request = expectation{verb: words[0], params: make(map[string]string)}
	if !slices.Contains([]string{"LIST", "WATCH", "WATCHLIST", "DIAL"}, words[0]) {
		p.fail("%s is no request: it is LIST, WATCH, WATCHLIST or DIAL", words[0])
	}
	times := 1
	for _, word := range words[1:] {
		key, value, ok := strings.Cut(word, "=")
		var err error
		switch {
		case !ok:
			err = errors.New("write KEY=VALUE")
		case key == "times":
			if times, err = strconv.Atoi(value); err == nil && (times < 1 || times > maxTimes) {
				err = fmt.Errorf("not between 1 and %d", maxTimes)
			}
		case key == "after":
			st.timed = true
			st.low, st.high, err = parseRange(value)
		case words[0] == "DIAL":
			err = errors.New("a DIAL has only after= and times=")
		case requestParam(key):
			st.request.params[key] = value
		default:
			err = errors.New("no parameter of a request; there are " + strings.Join(requestParams, ", ") + ", after, times")
		}
		if err != nil {
			p.fail("%s: %v", word, err)
		}
	}
	if len(p.script.steps)+times > maxSteps {
		p.fail("more than %d requests in all", maxSteps)
		times = 0
	}
	for range min(times, maxTimes) { // more was reported
		p.script.steps = append(p.script.steps, st)
	}
}

func (p *scriptParser) parseAnswer(rest string) {
	if p.last == nil {
		p.fail("an answer before the first request")
		return
	}
	do, err := parseAction(rest, p.script)
	if err != nil {
		p.fail("%v", err)
		return
	}
	p.last.actions = append(p.last.actions, action{pos: p.pos(), text: rest, serve: rest == "serve", do: do})
}

// checkStep checks what only the whole of a step shows.
func (p *scriptParser) checkStep(st *scriptStep) {
	for i, a := range st.actions {
		word, _, _ := strings.Cut(a.text, " ")
		last := i == len(st.actions)-1
		var why string
		switch {
		case isEnd(word) && !last:
			why = word + " ends an answer, and more follows"
		case st.request.verb == "DIAL" && !slices.Contains([]string{"refused", "RST", "hang", "delay"}, word):
			why = "a DIAL is answered with delay, refused, RST or hang"
		case word == "refused" && st.request.verb != "DIAL":
			why = "only a DIAL can be refused: a request is behind its connection"
		case st.served() && !last && word != "delay":
			why = "before serve there can only be delay: the server writes its own answer"
		}
		if why != "" {
			p.errs = append(p.errs, fmt.Errorf("%s: %s: %s", a.pos, a.text, why))
			return
		}
	}
	if st.request.verb == "DIAL" && len(st.actions) == 0 {
		p.errs = append(p.errs, fmt.Errorf("%s: a DIAL without an answer: say refused, RST or hang", st.pos))
	}
}

// parseRange parses LOW..HIGH, LOW.., ..HIGH, and a duration that is both.
func parseRange(s string) (low, high time.Duration, err error) {
	from, to, ok := strings.Cut(s, "..")
	if !ok {
		to = from
	}
	if from != "" {
		if low, err = parseSpan(from); err != nil {
			return 0, 0, err
		}
	}
	high = unbounded
	if to != "" {
		if high, err = parseSpan(to); err != nil {
			return 0, 0, err
		}
	}
	if low > high {
		return 0, 0, fmt.Errorf("%s is more than %s", from, to)
	}
	return low, high, nil
}

// unbounded is longer than any test.
const unbounded = 1 << 62 * time.Nanosecond

// parseSpan parses a duration that is not negative.
func parseSpan(s string) (time.Duration, error) {
	d, err := time.ParseDuration(s)
	if err == nil && d < 0 {
		err = fmt.Errorf("%s is negative", s)
	}
	return d, err
}

// requestParams are the parameters of a request line that a script can name.
var requestParams = []string{"rv", "limit", "continue", "match", "timeout", "bookmarks", "fields", "labels", "namespace", "accept", "gzip"}

func requestParam(key string) bool { return slices.Contains(requestParams, key) }

package podconfig

import (
	"cmp"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// fileSet is what is known of the manifests below some roots.
type fileSet struct {
	roots     []string // cleaned; directories or files
	behaviour Behaviour
	parser    manifestParser
	static    staticPods
	ledger    *ledger

	files map[string]*manifestFile
	// unlisted are the roots that could not be read: what they had stays.
	unlisted map[string]bool
	// links are the symbolic links on the way to manifests, and what they lead to.
	links map[string]bool
	dirs  map[string]bool // the roots that are directories
	// unsettled says that a file was left as it was because it may be in the middle of a
	// change: being written, or, in which case missing is set as well, away for a moment.
	unsettled, missing bool
}

// manifestFile is one file.
type manifestFile struct {
	root int // index of the root that it belongs to
	sum  [sha256.Size]byte
	// fault is why the content is not that of pod; empty where it is.
	fault string
	// pod is the last good one, nil where there was none. meaning is the
	// fingerprint of the manifest that it was made of.
	pod     *corev1.Pod
	meaning types.UID
	// writing is since when its content has been too young to be read.
	writing time.Time
}

func newFileSet(roots []string, b Behaviour, s staticPods, l *ledger) *fileSet {
	return &fileSet{roots: roots, behaviour: b, parser: manifestParser{b}, static: s, ledger: l,
		files: map[string]*manifestFile{}, unlisted: map[string]bool{}, dirs: map[string]bool{}, links: map[string]bool{}}
}

// listed reports whether each root could be read, or is known not to exist.
func (s *fileSet) listed() bool { return len(s.unlisted) == 0 }

// watched are the directories whose events tell of changes: the roots, what is
// above them, since they may come and go, and where symbolic links lead.
func (s *fileSet) watched() []string {
	all := maps.Clone(s.dirs)
	for _, root := range s.roots {
		all[root] = true
		all[filepath.Dir(root)] = true
	}
	for link := range s.links {
		all[filepath.Dir(link)] = true
	}
	return slices.Sorted(maps.Keys(all))
}

// concerns reports whether an event at a path may be about a manifest. Other
// things happen in the directories above the roots, and where links lead.
func (s *fileSet) concerns(path string) bool {
	path = filepath.Clean(path)
	if s.dirs[path] || s.links[path] || slices.Contains(s.roots, path) || s.dirs[filepath.Dir(path)] {
		return true
	}
	// A directory on the way that is watched was itself moved or deleted.
	for _, root := range s.roots {
		if filepath.Dir(root) == path {
			return true
		}
	}
	return false
}

// scan reads everything.
func (s *fileSet) scan(why occasion) {
	clear(s.unlisted)
	clear(s.links)
	clear(s.dirs)
	s.unsettled, s.missing = false, false
	found := make(map[string]bool)
	for i, root := range s.roots {
		s.scanRoot(i, root, found, why == rescanned)
	}
	// A file that was not found is gone, unless nobody could look. What happens to be read
	// while a file is replaced proves nothing: it is looked for again.
	for path, f := range s.files {
		switch {
		case found[path] || s.unlisted[s.roots[f.root]]:
		case why != settled && s.behaviour != KubeletCompatible:
			s.unsettled, s.missing = true, true
		default:
			delete(s.files, path)
			s.ledger.mend(path)
		}
	}
	s.ledger.mendOthers(func(where string) bool {
		return where == watchPlace || found[where] || slices.Contains(s.roots, where) || s.files[where] != nil
	})
}

// scanRoot reads one root and adds what it found there.
func (s *fileSet) scanRoot(i int, root string, found map[string]bool, full bool) {
	s.follow(root)
	info, err := os.Stat(root)
	switch {
	case errors.Is(err, fs.ErrNotExist) && isLink(root) && s.behaviour != KubeletCompatible:
		s.unlisted[root] = true
		s.ledger.fail(root, "it is a symbolic link to something that does not exist: what was there before is kept")
	case errors.Is(err, fs.ErrNotExist):
		// As the kubelet: what does not exist has no pods.
		s.ledger.fail(root, "it does not exist: create it, or leave it out")
	case err != nil:
		s.unlisted[root] = true
		s.ledger.fail(root, plainError(err))
	case info.IsDir():
		s.dirs[root] = true
		entries, err := os.ReadDir(root)
		if err != nil {
			s.unlisted[root] = true
			s.ledger.fail(root, plainError(err))
			return
		}
		s.ledger.mend(root)
		for _, e := range entries {
			if path := filepath.Join(root, e.Name()); !s.skips(e.Name()) && !found[path] {
				s.scanFile(i, path, found, full)
			}
		}
	case info.Mode().IsRegular():
		if found[root] {
			return
		}
		s.scanFile(i, root, found, full && s.behaviour != KubeletCompatible)
		if f := s.files[root]; s.behaviour == KubeletCompatible && f != nil && f.fault != "" {
			// The kubelet takes a single file that is bad for a path that it cannot read.
			s.unlisted[root] = true
		}
	default:
		s.unlisted[root] = true
		s.ledger.fail(root, fmt.Sprintf("it is neither a directory nor a file, but %s", info.Mode().Type()))
	}
}

// skips reports whether a name in a directory is no manifest.
func (s *fileSet) skips(name string) bool {
	if strings.HasPrefix(name, ".") {
		return true
	}
	return s.behaviour != KubeletCompatible &&
		(strings.HasSuffix(name, "~") || strings.HasPrefix(name, "#") && strings.HasSuffix(name, "#"))
}

// scanFile reads one file, as far as it is one.
func (s *fileSet) scanFile(root int, path string, found map[string]bool, full bool) {
	s.follow(path)
	data, modified, err := readManifestFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		if !isLink(path) {
			return // it went while we looked
		}
		err = errors.New("it is a symbolic link to something that does not exist")
	}
	found[path] = true
	f := s.files[path]
	if f == nil {
		f = &manifestFile{}
		s.files[path] = f
	}
	f.root = root
	if err != nil {
		// The sum is forgotten: the same content again, readable, mends the fault.
		f.sum, f.fault = [sha256.Size]byte{}, plainError(err)
	} else if sum := sha256.Sum256(data); f.sum != sum {
		if f.isWritten(modified) {
			s.unsettled = true
		} else {
			f.sum, f.writing = sum, time.Time{}
			s.parse(path, f, data)
		}
	}
	if f.fault == "" {
		return // a fault that stands there may be one of two files; pods tells
	}
	if s.behaviour == KubeletCompatible && full {
		f.pod, f.meaning = nil, ""
	}
	s.ledger.fail(path, f.fault+keeps(f.pod))
}

// isWritten reports whether a file that has a pod was changed so lately that it may be half
// written, which a periodic reading can meet: half a manifest may make sense. It does not
// say so of one file for longer than settleLimit, and never of one that has no pod to protect.
func (f *manifestFile) isWritten(modified time.Time) bool {
	now := time.Now()
	age := now.Sub(modified)
	if f.pod == nil || age < 0 || age >= settle {
		return false
	}
	if f.writing.IsZero() {
		f.writing = now
	}
	return now.Sub(f.writing) < settleLimit
}

// keeps says what happens to a pod whose manifest is bad.
func keeps(pod *corev1.Pod) string {
	if pod == nil {
		return ""
	}
	return fmt.Sprintf(" (the pod %s/%s stays as it was)", pod.Namespace, pod.Name)
}

// parse makes the pod of a content that is new.
func (s *fileSet) parse(path string, f *manifestFile, data []byte) {
	m, err := s.parser.pod(data)
	if err != nil {
		f.fault = err.Error()
		return
	}
	// By the content and not by the pod's UID, which stays while the content changes.
	meaning := manifestUID(m.tree, FileSource, s.static.node, path)
	if f.pod != nil && f.meaning == meaning {
		f.fault = ""
		return
	}
	pod, err := s.static.make(path, m, f.pod, time.Now())
	if err != nil {
		f.fault = err.Error()
		return
	}
	for _, doubt := range m.doubts {
		s.ledger.log.Warn("a part of a manifest has no effect", "where", path, "err", doubt)
	}
	f.pod, f.meaning, f.fault = pod, meaning, ""
}

// pods are the pods of all files, of which no two have one name or one UID: the
// first file wins (for the kubelet the last), and the others have a fault that
// names both.
func (s *fileSet) pods() []*corev1.Pod {
	paths := slices.SortedFunc(maps.Keys(s.files), func(a, b string) int {
		return cmp.Or(cmp.Compare(s.files[a].root, s.files[b].root), cmp.Compare(a, b))
	})
	if s.behaviour == KubeletCompatible {
		slices.Reverse(paths)
	}
	var all []*corev1.Pod
	owners := make(map[string]string, len(paths))
	for _, path := range paths {
		f := s.files[path]
		if f.pod == nil {
			continue
		}
		name, uid := f.pod.Namespace+"/"+f.pod.Name, "uid "+string(f.pod.UID)
		if owner := cmp.Or(owners[name], owners[uid]); owner != "" {
			if f.fault == "" {
				what := "pod " + name
				if owners[name] == "" {
					what = uid
				}
				s.ledger.fail(path, fmt.Sprintf("%s is in %s, too, which comes first: this file is not used; give them different names", what, owner))
			}
			continue
		}
		owners[name], owners[uid] = path, path
		all = append(all, f.pod)
		if f.fault == "" {
			s.ledger.mend(path)
		}
	}
	return all
}

// follow notes the symbolic links on the way to a path, and where they lead: the
// path itself may be one, and each directory above it.
func (s *fileSet) follow(path string) {
	// As many as the kernel follows is more than anybody has.
	for range 10 {
		for dir := filepath.Dir(path); dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
			if isLink(dir) {
				s.links[dir] = true
			}
		}
		target, err := os.Readlink(path)
		if err != nil {
			return
		}
		if !filepath.IsAbs(target) {
			target = filepath.Join(filepath.Dir(path), target)
		}
		path = target
		s.links[path] = true
	}
}

// isLink reports whether there is a symbolic link at a path.
func isLink(path string) bool {
	info, err := os.Lstat(path)
	return err == nil && info.Mode()&fs.ModeSymlink != 0
}

// readManifestFile reads a regular file up to the limit, and returns when it was
// modified. Opening does not wait, so that a pipe with nobody at the other end does not stop
// the source.
func readManifestFile(path string) ([]byte, time.Time, error) {
	file, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, time.Time{}, err
	}
	defer file.Close()
	info, err := file.Stat()
	switch {
	case err != nil:
		return nil, time.Time{}, err
	case info.IsDir():
		return nil, time.Time{}, errors.New("it is a directory: manifests are not looked for below it")
	case !info.Mode().IsRegular():
		return nil, time.Time{}, fmt.Errorf("it is not a regular file, but %s", info.Mode().Type())
	case info.Size() > MaxManifestBytes:
		return nil, time.Time{}, errManifestTooLarge
	}
	data, err := readManifest(file)
	return data, info.ModTime(), err
}

// plainError is an error without the operation and the path, which stand beside it.
func plainError(err error) string {
	var p *fs.PathError
	if errors.As(err, &p) {
		return p.Err.Error()
	}
	return err.Error()
}

package reflector

// shrinkingMap is a map that gives memory back. Go's maps keep the size of
// their best day, so that a collection that fell from 10,000 objects to one
// would hold the buckets of 10,000 for ever. This one is rebuilt when less than
// a quarter of what it once held is left, which costs each delete a constant
// amount on average.
type shrinkingMap[K comparable, V any] struct {
	m    map[K]V
	peak int // the largest length since m was made
}

// shrinkFrom is the size below which rebuilding is not worth it.
const shrinkFrom = 64

func (s *shrinkingMap[K, V]) get(k K) (V, bool) {
	v, ok := s.m[k]
	return v, ok
}

func (s *shrinkingMap[K, V]) len() int { return len(s.m) }

func (s *shrinkingMap[K, V]) set(k K, v V) {
	if s.m == nil {
		s.m = make(map[K]V)
	}
	s.m[k] = v
	s.peak = max(s.peak, len(s.m))
}

func (s *shrinkingMap[K, V]) delete(k K) {
	delete(s.m, k)
	if s.peak < shrinkFrom || len(s.m) >= s.peak/4 {
		return
	}
	smaller := make(map[K]V, len(s.m))
	for k, v := range s.m {
		smaller[k] = v
	}
	s.m, s.peak = smaller, len(smaller)
}

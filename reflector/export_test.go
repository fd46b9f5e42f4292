package reflector

// ShapeLine makes r decode lists in batches of so many objects, by so many
// workers, from the first object on.
func ShapeLine[T any](r *Reflector[T], workers, objects int) {
	r.shape = lineShape{workers: workers, objects: objects}
}

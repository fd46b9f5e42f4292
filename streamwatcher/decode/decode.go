package decode

import (
	"errors"
	"fmt"
	"reflect"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/nodewatch-go/nodewatch/streamwatcher/decode/internal/codec"
	"github.com/nodewatch-go/nodewatch/streamwatcher/decode/internal/layout"
)

// A Decoder makes a T of the bytes of one object. It keeps no reference to the
// bytes and is safe for use by several goroutines.
type Decoder[T any] interface {
	// Decode returns a new T. raw is one object: for JSON the object's text,
	// for Protobuf the object's message without the "k8s\x00" envelope.
	// On error the result is the zero T. JSON that is not one whole object, blanks aside, is an
	// error: that is how the end of one is found in a stream (see NewLine).
	Decode(enc Encoding, raw []byte) (T, error)
	// Encodings returns what Decode can read, the preferred one first.
	Encodings() []Encoding
}

// New returns a Decoder for T, a pointer to a struct, with the zero Config. It reads
//
//   - the built-in types (*corev1.Pod, *metav1.PartialObjectMetadata), and structs with
//     protobuf tags on all fields that JSON has: Protobuf and JSON;
//   - any other struct, such as one with only the fields a caller wants, of which
//     the rest is skipped, or that of a custom resource: JSON;
//   - *unstructured.Unstructured: JSON.
//
// JSON is read by apimachinery's rules: keys are case-sensitive, unknown ones
// are skipped, and of a repeated one the last counts. docs/decoding.md
// lists where the two differ on damaged input.
//
// As with client-go, the apiVersion and kind of typed objects are empty: the Go
// type says them. Unstructured objects keep theirs.
//
// The strings of an object stand in one buffer of their size: to keep one of
// them is to keep the others' bytes too, but nothing of the bytes that were decoded.
//
// Decoders are a [Sharer] and a [Packer], too: for stores that many read, and for those that hold much
// and read little.
//
// Types with an Unmarshal or UnmarshalJSON method of their own are read by it. A panic
// of such a method is returned as an error.
func New[T any]() (Decoder[T], error) { return NewWith[T](Config{}) }

// Config says how a Decoder decodes. The zero value leaves nothing out.
type Config struct {
	// Drop are fields that are left out, as if the server had not sent them; their bytes are
	// skipped. A path has the names of JSON, without the indexes of arrays: "metadata.managedFields",
	// "spec.containers.env". In brackets, and at the end, can stand the key of a map:
	// "metadata.annotations[kubectl.kubernetes.io/last-applied-configuration]".
	// Arrays are gone through. A path that is not in T is an error; unstructured content can have any path.
	Drop []string

	// NumbersOf gives a struct that has JSON tags only its protobuf form: a pointer to
	// the built-in type of the same kind, as &corev1.Pod{}. Fields are matched by their JSON
	// names, and each must be there, of the same Go kind or a pointer to it. nil means that T has
	// tags of its own, or is read from JSON.
	NumbersOf any

	// Intern is how many strings are remembered, so that objects share them: label
	// keys, image names, node names. A string is remembered when it comes again, if it has at most
	// 192 bytes; it then stands alone and not in its object's buffer. Each place takes 16
	// bytes, and about 60 more when it is in use. 0 remembers none, but those of DecodeShared: as many as Share.
	Intern int

	// Share is how many parts of objects DecodeShared remembers, so that objects share them:
	// what pointers point to, slices and maps, of up to 4 KiB encoded. A part is remembered when the same
	// bytes come for the second time in the same field; it is not decoded again. A place
	// takes 34 bytes, and 48 and the part when it is in use. The tables are made by the first DecodeShared; they are small at
	// first and grow up to this.
	// 0 is 16384, which is enough for most collections; -1 is none: then only
	// the versions of one object share.
	Share int
}

const (
	defaultShare = 16384
	// maxPlaces bounds Config.Intern and Config.Share.
	maxPlaces = 1 << 22
)

// withDefaults returns c with what stands for its zero values.
func (c Config) withDefaults() Config {
	if c.Share == 0 {
		c.Share = defaultShare
	}
	return c
}

// validate tells what is wrong with the numbers of c.
func (c Config) validate() error {
	if c.Intern < 0 || c.Intern > maxPlaces {
		return fmt.Errorf("the number Intern is %d, it should be 0 to %d", c.Intern, maxPlaces)
	}
	if c.Share < -1 || c.Share > maxPlaces {
		return fmt.Errorf("the number Share is %d, it should be -1 to %d", c.Share, maxPlaces)
	}
	return nil
}

// NewWith returns a Decoder for T, as New, that follows cfg.
func NewWith[T any](cfg Config) (Decoder[T], error) {
	t := reflect.TypeFor[T]()
	if t.Kind() != reflect.Pointer || t.Elem().Kind() != reflect.Struct {
		return nil, fmt.Errorf("decode: cannot make objects of type %v: it is not a pointer to a struct, as *corev1.Pod is", t)
	}
	like, err := cfg.numbersOf()
	if err != nil {
		return nil, fmt.Errorf("decode: %w", err)
	}
	if err := cfg.validate(); err != nil {
		return nil, fmt.Errorf("decode: %w", err)
	}
	cfg = cfg.withDefaults()
	d := &decoder[T]{elem: t.Elem()}
	obj := reflect.New(d.elem).Interface()
	if _, ok := obj.(runtime.Unstructured); ok {
		return newUnstructured[T](d.elem, cfg)
	}
	_, hasKind := obj.(kinded)
	d.prog, err = codec.Compile(d.elem, codec.Config{Drop: cfg.Drop, Like: like, Intern: cfg.Intern, Share: cfg.Share, EmptyTypeMeta: hasKind})
	if err != nil {
		return nil, fmt.Errorf("decode: %w", err)
	}
	d.clearKind = hasKind && !embedsTypeMeta(d.elem)
	err = d.choose(cfg)
	d.packers = packers[T](d, d.fallback != nil)
	return d, err
}

// choose finds out what d can read, and by which means.
func (d *decoder[T]) choose(cfg Config) error {
	byMethod := d.prog.ProtoErr != nil && readsProtobuf(d.elem)
	if d.prog.ProtoErr == nil || byMethod {
		d.encodings = append(d.encodings, Protobuf)
	}
	d.encodings = append(d.encodings, JSON)
	switch {
	case cfg.NumbersOf != nil && d.prog.ProtoErr != nil:
		return fmt.Errorf("decode: %v with the field numbers of %T: %w", d.elem, cfg.NumbersOf, d.prog.ProtoErr)
	case d.prog.JSONErr == nil && !byMethod:
		return nil
	case len(cfg.Drop) > 0:
		return fmt.Errorf("decode: nothing can be dropped from %v: %w", d.elem, errors.Join(d.prog.JSONErr, d.prog.ProtoErr))
	}
	d.fallback = &fallback{elem: d.elem, encodings: d.encodings}
	return nil
}

func (c Config) numbersOf() (reflect.Type, error) {
	if c.NumbersOf == nil {
		return nil, nil
	}
	t := reflect.TypeOf(c.NumbersOf)
	if t.Kind() != reflect.Pointer || t.Elem().Kind() != reflect.Struct {
		return nil, fmt.Errorf("NumbersOf is a %v, it should be a pointer to a struct, as &corev1.Pod{}", t)
	}
	return t.Elem(), nil
}

// kinded is what typed objects have.
type kinded interface{ GetObjectKind() schema.ObjectKind }

// embedsTypeMeta tells whether apiVersion and kind are those of an embedded
// TypeMeta, which the codec leaves empty.
func embedsTypeMeta(t reflect.Type) bool {
	f, ok := t.FieldByName("TypeMeta")
	return ok && f.Anonymous && len(f.Index) == 1 && f.Type == reflect.TypeFor[metav1.TypeMeta]()
}

// decoder decodes by a program compiled for its type, and by apimachinery's means
// what cannot be compiled.
type decoder[T any] struct {
	elem      reflect.Type
	encodings []Encoding
	prog      *codec.Program
	fallback  *fallback // nil if prog does all
	clearKind bool
	packers   [Protobuf + 1]packer[T]
}

func (d *decoder[T]) Encodings() []Encoding { return append([]Encoding(nil), d.encodings...) }

// Decode implements Decoder.
func (d *decoder[T]) Decode(enc Encoding, raw []byte) (t T, err error) {
	defer d.guard(enc, &t, &err)
	var at layout.Ptr
	switch d.means(enc) {
	case byProgram:
		if enc == Protobuf {
			at, err = d.prog.Protobuf(raw)
		} else {
			at, err = d.prog.JSON(raw)
		}
	case byFallback:
		return d.byFallback(enc, raw)
	default:
		err = d.refuse(enc)
	}
	return d.finished(at, err)
}

// DecodeShared implements Sharer.
func (d *decoder[T]) DecodeShared(enc Encoding, raw []byte, old T, was Parts) (t T, parts Parts, err error) {
	if d.means(enc) != byProgram {
		t, err = d.Decode(enc, raw)
		return t, Parts{}, err
	}
	defer d.guard(enc, &t, &err)
	read := d.prog.JSONShared
	if enc == Protobuf {
		read = d.prog.ProtobufShared
	}
	at, list, err := read(raw, layout.From(old), was.list())
	t, err = d.finished(at, err)
	return t, Parts{list.First()}, err
}

// Pack implements Packer.
func (d *decoder[T]) Pack(enc Encoding, raw []byte) (p Packed[T], err error) {
	switch {
	case enc != JSON && enc != Protobuf || d.means(enc) == byNone:
		return p, fmt.Errorf("decode: %v from %v: %w", d.elem, enc, d.refuse(enc))
	case d.means(enc) == byFallback:
		p.raw = string(raw)
	case enc == Protobuf:
		p.raw, err = d.prog.PackProtobuf(raw)
	default:
		p.raw, err = d.prog.PackJSON(raw)
	}
	if err != nil {
		return Packed[T]{}, fmt.Errorf("decode: %v from %v: %w", d.elem, enc, err)
	}
	p.by = &d.packers[enc]
	return p, nil
}

// means is how an encoding is read.
type means int

const (
	byNone means = iota
	byProgram
	byFallback
)

func (d *decoder[T]) means(enc Encoding) means {
	switch {
	case enc == Protobuf && d.prog != nil && d.prog.ProtoErr == nil:
		return byProgram
	case enc == JSON && d.prog != nil && d.prog.JSONErr == nil:
		return byProgram
	case d.fallback != nil:
		return byFallback
	}
	return byNone
}

// refuse is the error for an encoding that d cannot read.
func (d *decoder[T]) refuse(enc Encoding) error {
	if enc == Protobuf {
		return errNoProtobuf
	}
	return fmt.Errorf("unknown encoding %d", enc)
}

// guard makes an error of the panic of an Unmarshal method, and says in each what was
// decoded. It is deferred.
func (d *decoder[T]) guard(enc Encoding, t *T, err *error) {
	if p := recover(); p != nil {
		*err = fmt.Errorf("a method Unmarshal panicked: %v", p)
	}
	if *err != nil {
		var zero T
		*t, *err = zero, fmt.Errorf("decode: %v from %v: %w", d.elem, enc, *err)
	}
}

func (d *decoder[T]) byFallback(enc Encoding, raw []byte) (t T, err error) {
	obj := reflect.New(d.elem).Interface()
	if err := d.fallback.into(obj, enc, raw); err != nil {
		return t, err
	}
	return obj.(T), nil
}

// finished returns the object at at as a T.
func (d *decoder[T]) finished(at layout.Ptr, err error) (t T, _ error) {
	if err != nil {
		return t, err
	}
	t = layout.To[T](at)
	if d.clearKind {
		any(t).(kinded).GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{})
	}
	return t, nil
}

// KindOf returns the kind of the built-in type T, a type of k8s.io/api or of
// meta/v1 (PartialObjectMetadata), or a pointer to one: there the Go name is the
// kind. For other types, whose name may be anything, it is "".
func KindOf[T any]() string {
	t := reflect.TypeFor[T]()
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if pkg := t.PkgPath(); strings.HasPrefix(pkg, "k8s.io/api/") || pkg == "k8s.io/apimachinery/pkg/apis/meta/v1" {
		return t.Name()
	}
	return ""
}

var (
	_ Sharer[*metav1.PartialObjectMetadata] = (*decoder[*metav1.PartialObjectMetadata])(nil)
	_ Packer[*metav1.PartialObjectMetadata] = (*decoder[*metav1.PartialObjectMetadata])(nil)
)

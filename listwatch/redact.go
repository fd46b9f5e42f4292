package listwatch

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"strings"

	"github.com/nodewatch-go/nodewatch/streamwatcher/decode"
)

// redact overwrites with asterisks, length kept, the credentials of the request
// in what came back: some proxies and test servers echo the request.
func (a *attempt) redact(text string) string {
	scheme, credentials, _ := strings.Cut(a.authorization(), " ")
	text = blot(text, credentials)
	if strings.EqualFold(scheme, "Basic") {
		if plain, err := base64.StdEncoding.DecodeString(credentials); err == nil {
			_, password, _ := strings.Cut(string(plain), ":")
			text = blot(text, password)
			// As Go's servers write it into JSON, with escapes for <, > and &.
			if escaped, err := json.Marshal(password); err == nil {
				text = blot(text, strings.Trim(string(escaped), `"`))
			}
		}
	}
	return text
}

// partBytes is from where on a part of a secret counts as the secret.
const partBytes = 12

// blot overwrites secret in text, and its beginning too: a snippet, a piece of
// a body, a header shortened for one line may end in the middle of it.
func blot(text, secret string) string {
	if secret == "" {
		return text
	}
	part := secret[:min(len(secret), partBytes)]
	if !strings.Contains(text, part) {
		return text
	}
	text = strings.ReplaceAll(text, secret, strings.Repeat("*", len(secret)))
	for from := 0; ; {
		i := strings.Index(text[from:], part)
		if i < 0 {
			return text
		}
		i += from
		from = i
		for n := 0; from < len(text) && n < len(secret) && text[from] == secret[n]; n++ {
			from++
		}
		text = text[:i] + strings.Repeat("*", from-i) + text[from:]
	}
}

// redactError is redact for an error, which stays the same one when there is
// nothing to hide.
func (a *attempt) redactError(err error) error {
	if err == nil {
		return nil
	}
	text := err.Error()
	if shown := a.redact(text); shown != text {
		return errors.New(shown)
	}
	return err
}

// redactingDecoder is a decoder for the objects of one answer: what does not decode is
// quoted by some errors, and may be an echo as well.
type redactingDecoder[T any] struct {
	decode.Decoder[T]
	attempt *attempt
}

// Decode implements decode.Decoder.
func (d redactingDecoder[T]) Decode(enc decode.Encoding, raw []byte) (T, error) {
	t, err := d.Decoder.Decode(enc, raw)
	return t, d.attempt.redactError(err)
}

// DecodeShared implements decode.Sharer where the decoder is one.
func (d redactingDecoder[T]) DecodeShared(enc decode.Encoding, raw []byte, old T, was decode.Parts) (T, decode.Parts, error) {
	sharer, ok := d.Decoder.(decode.Sharer[T])
	if !ok {
		t, err := d.Decode(enc, raw)
		return t, decode.Parts{}, err
	}
	t, parts, err := sharer.DecodeShared(enc, raw, old, was)
	return t, parts, d.attempt.redactError(err)
}

// Pack implements decode.Packer. What is kept knows nothing of the answer.
func (d redactingDecoder[T]) Pack(enc decode.Encoding, raw []byte) (decode.Packed[T], error) {
	packed, err := d.Decoder.(decode.Packer[T]).Pack(enc, raw)
	return packed, d.attempt.redactError(err)
}

package listwatchtest

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"strings"
)

// continueToken is what a continue token holds. Clients must not look into it.
type continueToken struct {
	APIVersion      string `json:"v"`
	ResourceVersion int64  `json:"rv"` // negative: go on with the latest state
	Start           string `json:"start"`
}

const continueVersion = "meta.k8s.io/v1"

func encodeContinue(start string, rv int64) string {
	data, err := json.Marshal(continueToken{APIVersion: continueVersion, ResourceVersion: rv, Start: start})
	if err != nil {
		panic("listwatchtest: a continue token does not encode: " + err.Error())
	}
	return base64.RawURLEncoding.EncodeToString(data)
}

// decodeContinue returns the key to begin at, and the version. The errors'
// words are the server's.
func decodeContinue(token, prefix string) (key string, rv int64, err error) {
	data, err := base64.RawURLEncoding.DecodeString(token)
	if err != nil {
		return "", 0, fmt.Errorf("continue key is not valid: %w", err)
	}
	var t continueToken
	if err := json.Unmarshal(data, &t); err != nil {
		return "", 0, fmt.Errorf("continue key is not valid: %w", err)
	}
	switch {
	case t.APIVersion != continueVersion:
		return "", 0, fmt.Errorf("continue key is not valid: server does not recognize this encoded version %s", t.APIVersion)
	case t.ResourceVersion == 0:
		return "", 0, errors.New("continue key is not valid: incorrect encoded start resourceVersion (version meta.k8s.io/v1)")
	case t.Start == "":
		return "", 0, errors.New("continue key is not valid: encoded start key empty (version meta.k8s.io/v1)")
	}
	start := "/" + strings.TrimPrefix(t.Start, "/")
	if path.Clean(start) != start {
		return "", 0, fmt.Errorf("continue key is not valid: %s", t.Start)
	}
	return prefix + start[1:], t.ResourceVersion, nil
}

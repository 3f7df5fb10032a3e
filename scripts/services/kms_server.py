"""moto's KMS with the answers of AWS where plain moto differs: disabled keys, keys waiting for deletion, wrong key ids.

Usage: kms_server.py -H 127.0.0.1 -p <port>
"""
import moto.kms.utils as kms_utils
from moto.core.exceptions import JsonRESTError
from moto.kms.models import KmsBackend
from moto.server import main


def checked(backend, key_id):
    """The key, if it may be used."""
    key = backend.keys[key_id]
    if key.key_state == "PendingDeletion":
        raise JsonRESTError("KMSInvalidStateException", f"{key.arn} is pending deletion.")
    if not key.enabled:
        raise JsonRESTError("DisabledException", f"{key.arn} is disabled.")
    return key


def encrypt(self, key_id, plaintext, encryption_context):
    checked(self, self.any_id_to_key_id(key_id))
    return plain_encrypt(self, key_id, plaintext, encryption_context)


def decrypt(self, ciphertext_blob, encryption_context, key_id=None):
    try:
        made_by = kms_utils._deserialize_ciphertext_blob(ciphertext_blob=ciphertext_blob).key_id
    except Exception:
        made_by = None
    if made_by not in self.keys:
        raise JsonRESTError("InvalidCiphertextException", "")
    checked(self, made_by)
    if key_id is not None and self.any_id_to_key_id(key_id) != made_by:
        raise JsonRESTError("IncorrectKeyException", "The key in the request is not the one of the ciphertext.")
    return plain_decrypt(self, ciphertext_blob, encryption_context, key_id)


plain_encrypt, KmsBackend.encrypt = KmsBackend.encrypt, encrypt
plain_decrypt, KmsBackend.decrypt = KmsBackend.decrypt, decrypt

if __name__ == "__main__":
    main()

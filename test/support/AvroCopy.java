import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.Base64;
import org.apache.avro.Schema;
import org.apache.avro.generic.GenericDatumReader;
import org.apache.avro.generic.GenericDatumWriter;
import org.apache.avro.generic.GenericRecord;
import org.apache.avro.io.DecoderFactory;
import org.apache.avro.io.EncoderFactory;

/** Reads lines of `schema body`, both in Base64; answers with the record as JSON and the body as this library writes it. */
class AvroCopy {
  public static void main(String[] args) throws Exception {
    BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    for (String line = lines.readLine(); line != null; line = lines.readLine()) {
      String[] parts = line.split(" ");
      String text = new String(Base64.getDecoder().decode(parts[0]), StandardCharsets.UTF_8);
      Schema schema = new Schema.Parser().parse(text);
      byte[] body = Base64.getDecoder().decode(parts[1]);
      GenericRecord record =
          new GenericDatumReader<GenericRecord>(schema).read(null, DecoderFactory.get().binaryDecoder(body, null));
      ByteArrayOutputStream out = new ByteArrayOutputStream();
      var encoder = EncoderFactory.get().binaryEncoder(out, null);
      new GenericDatumWriter<GenericRecord>(schema).write(record, encoder);
      encoder.flush();
      String json = Base64.getEncoder().encodeToString(record.toString().getBytes(StandardCharsets.UTF_8));
      System.out.println(json + " " + Base64.getEncoder().encodeToString(out.toByteArray()));
    }
  }
}

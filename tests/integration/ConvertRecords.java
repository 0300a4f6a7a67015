import io.confluent.connect.protobuf.ProtobufConverter;
import io.confluent.kafka.schemaregistry.client.SchemaRegistryClient;
import io.confluent.kafka.schemaregistry.testutil.MockSchemaRegistry;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.Base64;
import java.util.HashMap;
import java.util.Map;
import org.apache.kafka.connect.data.SchemaAndValue;
import org.apache.kafka.connect.json.JsonConverter;

/**
 * Lines of standard input (topic, key or value, JSON with its schema in base64) → what ProtobufConverter writes of them, a line each:
 * "record" and base64, or "failed" and why. Then each schema that it registered: "schema", id, text in base64, what it refers to.
 */
public class ConvertRecords {
  public static void main(String[] options) throws Exception {
    Map<String, Object> settings = new HashMap<>(Map.of("schema.registry.url", "mock://records"));
    for (String option : options) {
      settings.put(option.split("=")[0], option.split("=")[1]);
    }
    Map<String, JsonConverter> readers = new HashMap<>();
    Map<String, ProtobufConverter> writers = new HashMap<>();
    for (String side : new String[] {"key", "value"}) {
      JsonConverter reader = new JsonConverter();
      reader.configure(Map.of("replace.null.with.default", "false"), side.equals("key"));
      readers.put(side, reader);
      ProtobufConverter writer = new ProtobufConverter();
      writer.configure(settings, side.equals("key"));
      writers.put(side, writer);
    }
    BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
    for (String line = lines.readLine(); line != null; line = lines.readLine()) {
      String[] parts = line.split("\t");
      try {
        SchemaAndValue value = readers.get(parts[1]).toConnectData(parts[0], Base64.getDecoder().decode(parts[2]));
        byte[] record = writers.get(parts[1]).fromConnectData(parts[0], value.schema(), value.value());
        System.out.println("record\t" + Base64.getEncoder().encodeToString(record));
      } catch (RuntimeException error) {
        System.out.println("failed\t" + error.getClass().getSimpleName());
      }
    }
    SchemaRegistryClient registry = MockSchemaRegistry.getClientForScope("records");
    for (String subject : registry.getAllSubjects()) {
      for (int version : registry.getAllVersions(subject)) {
        int id = registry.getSchemaMetadata(subject, version).getId();
        byte[] text = registry.getSchemaById(id).canonicalString().getBytes("UTF-8");
        String references = registry.getSchemaById(id).references().toString();
        System.out.println("schema\t" + id + "\t" + Base64.getEncoder().encodeToString(text) + "\t" + references);
      }
    }
  }
}

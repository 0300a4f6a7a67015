import java.io.InputStream;
import java.net.InetSocketAddress;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.Map;
import java.util.Properties;
import java.util.function.Consumer;
import org.apache.hadoop.conf.Configuration;
import org.apache.iceberg.CatalogUtil;
import org.apache.iceberg.MetadataUpdate;
import org.apache.iceberg.catalog.Catalog;
import org.apache.iceberg.catalog.Namespace;
import org.apache.iceberg.catalog.SupportsNamespaces;
import org.apache.iceberg.catalog.TableIdentifier;
import org.apache.iceberg.exceptions.ForbiddenException;
import org.apache.iceberg.rest.HTTPRequest;
import org.apache.iceberg.rest.ParserContext;
import org.apache.iceberg.rest.RESTCatalogAdapter;
import org.apache.iceberg.rest.RESTCatalogServlet;
import org.apache.iceberg.rest.RESTResponse;
import org.apache.iceberg.rest.requests.CreateTableRequest;
import org.apache.iceberg.rest.requests.RegisterTableRequest;
import org.apache.iceberg.rest.requests.UpdateTableRequest;
import org.apache.iceberg.rest.responses.ErrorResponse;
import org.eclipse.jetty.server.Server;
import org.eclipse.jetty.servlet.ServletContextHandler;
import org.eclipse.jetty.servlet.ServletHolder;

/** Iceberg's REST catalog as its own tests run it: arguments are host, port and the file of its settings. */
public final class RestCatalogMain {
    public static void main(String[] args) throws Exception {
        Properties settings = new Properties();
        try (InputStream in = Files.newInputStream(Path.of(args[2]))) {
            settings.load(in);
        }
        Map<String, String> properties = new HashMap<>();
        settings.stringPropertyNames().forEach(name -> properties.put(name, settings.getProperty(name)));
        String refuses = properties.getOrDefault("cdc.refuses", "");
        Catalog catalog = CatalogUtil.buildIcebergCatalog("rest_backend", properties, new Configuration());
        Server server = new Server(new InetSocketAddress(args[0], Integer.parseInt(args[1])));
        ServletContextHandler handler = new ServletContextHandler();
        handler.setContextPath("/");
        RESTCatalogAdapter adapter = refuses.isEmpty()
                ? new RESTCatalogAdapter(catalog)
                : new Guarded(catalog, properties.get("warehouse"), refuses.contains("create"));
        handler.addServlet(new ServletHolder(new RESTCatalogServlet(adapter)), "/*");
        server.setHandler(handler);
        server.start();
        server.join();
    }

    /** Refuses what guarded catalogs refuse: registration, one location for two tables, locations outside a namespace. */
    static final class Guarded extends RESTCatalogAdapter {
        private final Catalog catalog;
        private final String warehouse;
        private final boolean noStages;

        Guarded(Catalog catalog, String warehouse, boolean noStages) {
            super(catalog);
            this.catalog = catalog;
            this.warehouse = warehouse;
            this.noStages = noStages;
        }

        @Override
        protected <T extends RESTResponse> T execute(
                HTTPRequest request,
                Class<T> type,
                Consumer<ErrorResponse> onError,
                Consumer<Map<String, String>> headers,
                ParserContext context) {
            try {
                check(request);
            } catch (ForbiddenException refusal) {
                onError.accept(ErrorResponse.builder()
                        .responseCode(403)
                        .withType("ForbiddenException")
                        .withMessage(refusal.getMessage())
                        .build());
                return null;
            }
            return super.execute(request, type, onError, headers, context);
        }

        private void check(HTTPRequest request) {
            String[] path = request.path().split("/");
            Object body = request.body();
            if (body instanceof RegisterTableRequest) {
                throw new ForbiddenException("Tables are not registered here");
            } else if (body instanceof CreateTableRequest) {
                CreateTableRequest create = (CreateTableRequest) body;
                if (noStages && path[2].equals("cdc_stage")) {
                    throw new ForbiddenException("Tables are not created in %s", path[2]);
                }
                place(TableIdentifier.of(Namespace.of(path[2]), create.name()), create.location());
                create.properties().forEach((key, value) -> placed(path[2], create.name(), key, value));
            } else if (body instanceof UpdateTableRequest) {
                for (MetadataUpdate update : ((UpdateTableRequest) body).updates()) {
                    if (update instanceof MetadataUpdate.SetLocation) {
                        place(TableIdentifier.of(path[2], path[4]), ((MetadataUpdate.SetLocation) update).location());
                    } else if (update instanceof MetadataUpdate.SetProperties) {
                        ((MetadataUpdate.SetProperties) update)
                                .updated().forEach((key, value) -> placed(path[2], path[4], key, value));
                    }
                }
            }
        }

        private void placed(String namespace, String name, String key, String value) {
            if (key.equals("write.data.path") || key.equals("write.metadata.path")) {
                place(TableIdentifier.of(namespace, name), value);
            }
        }

        private void place(TableIdentifier table, String location) {
            if (location == null) {
                return;
            }
            String within = warehouse.replaceAll("/+$", "") + "/" + table.namespace() + "/";
            if (!location.startsWith(within)) {
                throw new ForbiddenException("Location %s of %s is not in %s", location, table, within);
            }
            for (Namespace namespace : ((SupportsNamespaces) catalog).listNamespaces()) {
                for (TableIdentifier other : catalog.listTables(namespace)) {
                    String taken = catalog.loadTable(other).location() + "/";
                    boolean overlaps = taken.startsWith(location + "/") || (location + "/").startsWith(taken);
                    if (!other.equals(table) && overlaps) {
                        throw new ForbiddenException("Location %s of %s conflicts with that of %s", location, table, other);
                    }
                }
            }
        }
    }
}
